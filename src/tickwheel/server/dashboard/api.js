// The server's API: one function to call it, and what it answers when it cannot do as asked.

// The page may be mounted anywhere: addresses start from where these modules are.
const BASE = new URL("../", import.meta.url);

// A problem the server (or the way to it) told of. `detail` is for people; `errors` point into the body.
export class Problem extends Error {
  constructor(status, { title = "", detail = "", errors = [] } = {}) {
    super(detail || title || String(status));
    this.status = status;
    this.errors = errors;
  }
}

const refusals = new EventTarget();

// Tell a listener whenever the server wants to know who asks.
export function onRefusal(listener) {
  refusals.addEventListener("refused", listener);
}

export function address(path, query = {}) {
  const url = new URL(path, BASE);
  for (const [name, value] of Object.entries(query)) {
    if (value !== "" && value !== null && value !== undefined) url.searchParams.set(name, value);
  }
  return url;
}

// The path of a task, or of a verb on it. What the id holds stays inside its segment.
export function taskPath(id, verb = "") {
  return `v1/tasks/${encodeURIComponent(id)}${verb && `:${verb}`}`;
}

export const get = (path, query) => call("GET", path, { query });
export const post = (path, body = {}) => call("POST", path, { body, query: { masked: true } });
export const patch = (path, body, headers) => call("PATCH", path, { body, headers, query: { masked: true } });
export const erase = (path) => call("DELETE", path, {});

async function call(method, path, { query, body, headers = {} }) {
  let response;
  try {
    response = await fetch(address(path, query), {
      method,
      credentials: "same-origin",
      headers: body === undefined ? headers : { "Content-Type": "application/json", ...headers },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch {
    throw new Problem(0);
  }
  const answer = await response.text();
  if (!response.ok) {
    if (response.status === 401 && path !== "v1/session") refusals.dispatchEvent(new Event("refused"));
    throw new Problem(response.status, parsed(answer) ?? { title: response.statusText });
  }
  return parsed(answer);
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
