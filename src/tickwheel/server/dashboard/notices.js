// What the dashboard tells in passing: notices that are seen and read aloud, and words that are only read aloud.

import { Problem } from "./api.js";
import { h } from "./dom.js";
import { t } from "./texts.js";

const SHOWN_MS = 6000;
const SHOWN_MAX = 4;

export function say(text) {
  document.getElementById("said").textContent = text;
}

export function notice(text, kind = "good") {
  const notices = document.getElementById("notices");
  const close = h("button", { type: "button", class: "quiet", "aria-label": t("close") }, "×");
  const box = h("div", { class: `notice ${kind}`, role: kind === "bad" ? "alert" : null }, h("span", {}, text), close);
  close.addEventListener("click", () => box.remove());
  notices.append(box);
  while (notices.children.length > SHOWN_MAX) notices.firstElementChild.remove();
  if (kind !== "bad") setTimeout(() => box.remove(), SHOWN_MS);
}

// A problem in the reader's words, with what the server says about it.
export function wordsFor(problem) {
  if (!(problem instanceof Problem)) throw problem;
  if (problem.status === 0) return t("problem.unreachable");
  if (problem.status === 401) return t("problem.unknown-reader");
  if (problem.status === 403) return t("problem.forbidden", problem.message);
  return problem.message;
}

// Do something, and tell if it fails. Returns whether it was done.
export async function attempt(act) {
  try {
    await act();
    return true;
  } catch (problem) {
    notice(wordsFor(problem), "bad");
    return false;
  }
}
