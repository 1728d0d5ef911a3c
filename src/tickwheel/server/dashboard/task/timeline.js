// A task's life so far, first things first: added, each run, how it ended, when it is due.

import { h } from "../dom.js";
import { duration, momentOf } from "../format.js";
import { shownStatus, statusOf } from "../pieces.js";
import { t } from "../texts.js";

const SHOWN = 12; // of its runs, the latest

export function timeline(task, runs) {
  const latest = [...runs].sort((one, other) => one.attempt - other.attempt).slice(-SHOWN);
  const steps = [
    step(task.created, t("timeline.added")),
    runs.length > SHOWN && h("li", { class: "soft" }, t("timeline.earlier", runs.length - SHOWN)),
    latest.map((run) => step(run.started ?? run.due, t("timeline.run", run.attempt), statusOf(run.status), took(run))),
    task.status === "running" && step(task.started, t("timeline.running"), statusOf("running")),
    task.status === "cancelled" && step(task.finished, t("timeline.over"), statusOf("cancelled"), task.reason),
    task.status === "pending" && step(task.due, t("timeline.due"), statusOf(shownStatus(task))),
  ];
  return h("ol", { class: "timeline" }, steps.flat().filter(Boolean));
}

function took(run) {
  return t("timeline.took", { late: duration(run.late), took: duration(run.took) });
}

function step(at, what, ...more) {
  return h("li", {}, h("span", { class: "what" }, what), more, h("span", { class: "soft" }, momentOf(at)));
}
