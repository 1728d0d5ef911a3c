// Light or dark: the system's choice, or the reader's, which is kept.

import { keep, recall } from "./kept.js";

const dark = matchMedia("(prefers-color-scheme: dark)");
const listeners = new Set();

// "light", "dark", or "system".
export function theme() {
  return document.documentElement.dataset.theme ?? "system";
}

export function setTheme(name) {
  apply(name);
  keep("theme", name === "system" ? null : name);
  listeners.forEach((listener) => listener());
}

// Tell a listener when the colours change; returns how to leave.
export function onTheme(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

// The colours in force, by the names they have in theme.css, for what is painted on a canvas.
export function palette(...names) {
  const probe = document.createElement("span");
  document.body.append(probe);
  const found = {};
  for (const name of names) {
    probe.style.color = `var(--${name})`;
    found[name] = getComputedStyle(probe).color;
  }
  probe.remove();
  return found;
}

function apply(name) {
  if (name === "light" || name === "dark") document.documentElement.dataset.theme = name;
  else delete document.documentElement.dataset.theme;
}

apply(recall("theme"));
dark.addEventListener("change", () => listeners.forEach((listener) => listener()));
