// The runs of a task, with how late each was and what went wrong.

import { h } from "../dom.js";
import { duration, momentOf, number } from "../format.js";
import { listingOf, statusOf, tableOf } from "../pieces.js";
import { t } from "../texts.js";

const COLUMNS = ["attempt", "status", "started", "lateness", "took", "worker", "error"];

export function runsTable(runs) {
  const latest = Math.max(...runs.map((run) => run.late), 0.001);
  const headings = COLUMNS.map((name) => t(`field.${name}`));
  return tableOf(t("task.runs"), headings, h("tbody", {}, runs.map((run) => row(run, latest))), "runs");
}

function row(run, latest) {
  const late = h("meter", { min: 0, max: latest, value: Math.max(run.late, 0), "aria-hidden": "true" });
  return h(
    "tr",
    {},
    h("th", { scope: "row" }, number(run.attempt)),
    h("td", {}, statusOf(run.status)),
    h("td", {}, run.started ? momentOf(run.started) : "–"),
    h("td", { class: "lateness" }, late, duration(run.late)),
    h("td", {}, duration(run.took)),
    h("td", { class: "name" }, run.worker ?? "–"),
    h("td", {}, run.error ? details(run.error) : run.reason ?? "–"),
  );
}

// The last line of a trace says what happened; the rest is behind it.
function details(error) {
  const lines = error.trimEnd().split("\n");
  return h("details", {}, h("summary", {}, lines.at(-1)), listingOf(t("task.error"), error));
}
