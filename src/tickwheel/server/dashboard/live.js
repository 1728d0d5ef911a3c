// The server's stream of events: joined while the page is seen, left while it is hidden, joined again when it breaks.
//
// The browser itself joins a broken stream again, from the last event it has. Where it gives up (the server refuses),
// we try after a while. Either way everyone is told "reset": a stream that broke before its first event has no place
// to resume from, and a server that began anew may not know it.

import { address } from "./api.js";

const KINDS = [
  "added", "started", "completed", "failed", "retried", "skipped",
  "cancelled", "rescheduled", "paused", "resumed", "recovered", "lost",
];

const HEARD = 12; // events that are kept, for views that are opened later
const PAUSE_MS = 1000;
const PAUSE_MAX_MS = 30_000;

const listeners = new Set();
const watchers = new Set();
let heard = [];
let source = null;
let state = "waiting";
let broke = false;
let failures = 0; // in a row, of those we have to mend
let timer = null;
let wanted = false;

// Tell a listener every event; returns how to leave.
export function listen(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

// The last events, newest first.
export function lastHeard() {
  return heard;
}

// Tell a watcher how the stream is: "live", "waiting" or "paused"; returns how to leave.
export function watchStream(watcher) {
  watchers.add(watcher);
  watcher(state);
  return () => watchers.delete(watcher);
}

export function beginStream() {
  wanted = true;
  join();
}

export function endStream() {
  wanted = false;
  leave("waiting");
}

function join() {
  clearTimeout(timer);
  if (!wanted || document.hidden || source !== null) return;
  source = new EventSource(address("v1/events"));
  for (const kind of KINDS) source.addEventListener(kind, (message) => tell(JSON.parse(message.data)));
  source.addEventListener("reset", () => tell({ kind: "reset" }));
  source.addEventListener("open", () => {
    if (broke) tell({ kind: "reset" });
    broke = false;
    failures = 0;
    become("live");
  });
  source.addEventListener("error", broken);
}

function broken() {
  broke = true;
  become("waiting");
  if (source.readyState !== EventSource.CLOSED) return; // the browser tries again
  leave("waiting");
  failures += 1;
  timer = setTimeout(join, Math.min(PAUSE_MS * 2 ** (failures - 1), PAUSE_MAX_MS));
}

function leave(next) {
  clearTimeout(timer);
  source?.close();
  source = null;
  become(next);
}

function tell(event) {
  if (event.kind !== "reset") heard = [event, ...heard.slice(0, HEARD - 1)];
  listeners.forEach((listener) => listener(event));
}

function become(next) {
  if (next === state) return;
  state = next;
  watchers.forEach((watcher) => watcher(state));
}

document.addEventListener("visibilitychange", () => {
  if (!wanted) return;
  if (document.hidden) {
    leave("paused");
  } else {
    join();
    tell({ kind: "reset" });
  }
});
addEventListener("pagehide", () => leave("paused"));
addEventListener("pageshow", join);
