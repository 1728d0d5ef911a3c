// The runs of a task, with how late each was and what went wrong.

import { h } from "../dom.js";
import { duration, momentOf, number } from "../format.js";
import { columns, statusOf } from "../states.js";
import { t } from "../texts.js";

export function runsTable(runs) {
  const latest = Math.max(...runs.map((run) => run.late ?? 0), 0.001);
  return h(
    "table",
    {},
    h("caption", { class: "unseen" }, t("task.runs")),
    columns(t("field.attempt"), t("field.status"), t("field.started"), t("field.lateness"), t("field.took"), t("field.worker"), t("field.error")),
    h("tbody", {}, runs.map((run) => row(run, latest))),
  );
}

function row(run, latest) {
  return h(
    "tr",
    {},
    h("th", { scope: "row" }, number(run.attempt)),
    h("td", {}, statusOf(run.status)),
    h("td", {}, momentOf(run.started)),
    h("td", { class: "lateness" }, h("meter", { min: 0, max: latest, value: Math.max(run.late ?? 0, 0), "aria-hidden": "true" }), duration(run.late)),
    h("td", {}, duration(run.took)),
    h("td", { class: "name" }, run.worker ?? "–"),
    h("td", {}, run.error ? details(run.error) : run.reason ?? "–"),
  );
}

// The last line of a trace says what happened; the rest is behind it.
function details(error) {
  const lines = error.trimEnd().split("\n");
  return h("details", {}, h("summary", {}, lines.at(-1)), h("pre", { tabindex: "0", role: "group", "aria-label": t("task.error") }, error));
}
