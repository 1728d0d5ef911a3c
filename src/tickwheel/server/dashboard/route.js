// Where the reader is, told by the part of the address after "#": a path, and what is filtered for.
//
//     #/tasks?status=failed&tag=vip        path ["tasks"], query {status: "failed", tag: "vip"}
//     #/task/order%2F7                     path ["task", "order/7"]

export function here() {
  const hash = location.hash.replace(/^#\/?/, "");
  const mark = hash.indexOf("?");
  const path = mark < 0 ? hash : hash.slice(0, mark);
  const query = Object.fromEntries(new URLSearchParams(mark < 0 ? "" : hash.slice(mark + 1)));
  return { path: path.split("/").filter(Boolean).map(decoded), query };
}

export function link(path, query = {}) {
  const kept = Object.entries(query).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  const tail = new URLSearchParams(kept).toString();
  return `#/${path.map(encodeURIComponent).join("/")}${tail && `?${tail}`}`;
}

export function go(path, query) {
  location.hash = link(path, query);
}

// Change what is filtered for without a new step in the history.
export function amend(path, query) {
  history.replaceState(null, "", link(path, query));
  dispatchEvent(new HashChangeEvent("hashchange"));
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
