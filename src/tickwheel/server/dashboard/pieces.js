// The small pieces several views show: a status, tags, what to say when there is nothing, or when something is wrong.

import { h } from "./dom.js";
import { t, word } from "./texts.js";
import { wordsFor } from "./notices.js";

export const STATUSES = ["pending", "running", "paused", "completed", "failed", "cancelled"];

export function statusOf(status) {
  return h("span", { class: `status ${STATUSES.includes(status) ? status : ""}` }, word("status", status));
}

// What a task is shown as: one that waits and is paused is "paused".
export function shownStatus(task) {
  return task.paused && task.status === "pending" ? "paused" : task.status;
}

export function tagsOf(tags) {
  return tags.map((tag) => h("span", { class: "tag" }, tag));
}

export function nothing(text, ...more) {
  return h("div", { class: "empty" }, h("p", {}, text), more);
}

export function troubleOf(problem, again = null) {
  return h(
    "div",
    { class: "empty bad", role: "alert" },
    h("p", {}, wordsFor(problem)),
    again && h("button", { type: "button", on: { click: again } }, t("again")),
  );
}

// Whether there may be another occurrence after the present one.
export function isRecurring(task) {
  return task.trigger.type !== "once";
}

// When a task runs, in words.
export function triggerOf(trigger, format) {
  if (trigger.type === "every") return t("trigger.every", format(trigger.interval));
  if (trigger.type === "cron") return `${trigger.expression}${trigger.tz ? ` (${trigger.tz})` : ""}`;
  return t("trigger.once");
}

// A table whose caption is only read aloud.
export function tableOf(caption, headings, body, kind = "") {
  const head = h("thead", {}, h("tr", {}, headings.map((name) => h("th", { scope: "col" }, name))));
  return h("table", { class: kind }, h("caption", { class: "unseen" }, caption), head, body);
}

// Names and what they stand for.
export function pairsOf(kind, pairs) {
  return h("dl", { class: kind }, pairs.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

// Text as it is written, that can be scrolled by keyboard too.
export function listingOf(label, text) {
  return h("pre", { tabindex: "0", role: "group", "aria-label": label }, text);
}
