// One task: how it stands, what became of it so far, and what can be done with it.

import { get, taskPath } from "../api.js";
import { h, put } from "../dom.js";
import { duration, momentOf, number, pretty } from "../format.js";
import { listen } from "../live.js";
import { say } from "../notices.js";
import {
  isRecurring, listingOf, nothing, pairsOf, shownStatus, statusOf, tagsOf, triggerOf, troubleOf,
} from "../pieces.js";
import { actionBar } from "../task/actions.js";
import { runsTable } from "../task/runs.js";
import { timeline } from "../task/timeline.js";
import { t, word } from "../texts.js";
import { atMostEvery, every } from "../ticking.js";

const REFRESH_MS = 300;
const SLOW_MS = 5000; // what no event tells: where it waits, and why
const RUNS = 50;
const PARTS = ["bar", "error", "timeline", "facts", "next", "args", "result", "runs"];

export function show(root, route) {
  const id = route.path[1] ?? "";
  const parts = Object.fromEntries(PARTS.map((name) => [name, h("div", {})]));
  const { bar: top, error, runs: below, ...columns } = parts;
  const page = h(
    "div",
    {},
    h("p", { class: "crumbs" }, h("a", { href: "#/tasks" }, t("place.tasks"))),
    h("h1", { class: "id" }, id),
    [top, error],
    h("div", { class: "columns" }, Object.values(columns)),
    below,
  );
  const drawn = {};
  let asked = 0;
  let status = null;

  async function refresh() {
    asked += 1;
    const mine = asked;
    try {
      const [task, { runs }] = await Promise.all([
        get(taskPath(id), { masked: true }),
        get(`${taskPath(id)}/runs`, { limit: RUNS }),
      ]);
      if (mine === asked) draw(task, runs);
    } catch (problem) {
      if (mine !== asked) return;
      put(root, h("h1", { class: "id" }, id), problem.status === 404 ? missing(id) : troubleOf(problem, refresh));
    }
  }

  function draw(task, runs) {
    if (!page.isConnected) put(root, page);
    if (status !== null && status !== shownStatus(task)) say(t("task.became", word("status", shownStatus(task))));
    status = shownStatus(task);
    document.title = `${task.id} · tickwheel`;
    renew("bar", [task], () => bar(task, refresh));
    renew("error", [task.error], () => task.error && trace(task.error));
    renew("timeline", [task, runs], () => section(t("task.timeline"), timeline(task, runs)));
    renew("facts", [task], () => section(t("task.facts"), facts(task)));
    renew("next", [task.next_runs], () => section(t("task.next"), nextRuns(task)));
    renew("args", [task.args], () => section(t("task.args"), listingOf(t("task.args"), pretty(task.args))));
    renew("result", [task.result], () => task.result !== null && result(task.result));
    renew("runs", [runs], () => section(t("task.runs"), runs.length ? runsTable(runs) : nothing(t("task.no-runs"))));
  }

  // Draw a part again if what it shows has changed; what is open, focused or marked in the others stays so.
  function renew(name, shown, make) {
    const state = JSON.stringify(shown);
    if (drawn[name] === state) return;
    drawn[name] = state;
    const focused = parts[name].contains(document.activeElement) && document.activeElement.dataset.verb;
    put(parts[name], make());
    if (focused) parts[name].querySelector(`[data-verb="${CSS.escape(focused)}"]`)?.focus();
  }

  const soon = atMostEvery(REFRESH_MS, refresh);
  const leave = listen((event) => {
    if (event.task_id === id || event.kind === "reset") soon();
  });
  const stop = every(SLOW_MS, refresh);
  return {
    close() {
      leave();
      stop();
      soon.stop();
      asked += 1;
    },
  };
}

function missing(id) {
  return nothing(t("task.missing", id), h("a", { class: "button", href: "#/tasks" }, t("place.tasks")));
}

function standing(task) {
  const asked = task.cancel_requested && task.status === "running" && t("task.cancel-requested");
  return [...new Set([task.where, task.reason, asked])].filter(Boolean).join(" · ");
}

function bar(task, done) {
  const words = h("span", { class: "soft" }, standing(task));
  return h("div", { class: "bar" }, statusOf(shownStatus(task)), words, actionBar(task, done));
}

function result(value) {
  return section(t("task.result"), listingOf(t("task.result"), pretty(value)));
}

function section(title, ...body) {
  return h("section", { class: "panel" }, h("h2", {}, title), body);
}

function trace(error) {
  return h(
    "section",
    { class: "panel trace" },
    h("h2", {}, t("task.error")),
    listingOf(t("task.error"), error),
  );
}

function facts(task) {
  const { retries, first } = task.retry;
  const tries = { count: number(retries), first: duration(first), failures: number(task.failures) };
  const rows = [
    [t("field.name"), task.name],
    task.webhook && [t("field.webhook"), task.webhook.url],
    task.queue && [t("field.queue"), task.queue],
    [t("field.trigger"), triggerOf(task.trigger, duration)],
    [t("field.times"), task.times === -1 ? t("for-ever") : number(task.times)],
    [t("field.runs"), number(task.runs)],
    [t("field.attempt"), number(task.attempt)],
    [t("field.retry"), retries > 0 ? t("retry", tries) : "–"],
    [t("field.timeout"), duration(task.timeout)],
    [t("field.late"), word("late", task.late.mode)],
    isRecurring(task) && [t("field.overlap"), word("overlap", task.overlap)],
    [t("field.crashes"), t("task.crashes", { count: number(task.crashes), most: number(task.max_crashes) })],
    task.snoozes > 0 && [t("field.snoozes"), number(task.snoozes)],
    task.consecutive_failures > 0 && [t("field.consecutive_failures"), number(task.consecutive_failures)],
    task.last_run && [t("field.last_run"), [statusOf(task.last_run.status), " ", momentOf(task.last_run.finished)]],
    [t("field.priority"), number(task.priority)],
    task.at_most_once && [t("field.at_most_once"), t("yes")],
    [t("field.tags"), task.tags.length ? tagsOf(task.tags) : "–"],
    task.expires && [t("field.expires"), momentOf(task.expires)],
    [t("field.version"), number(task.version)],
    Object.keys(task.meta).length > 0 && [t("field.meta"), listingOf(t("field.meta"), pretty(task.meta))],
  ];
  return pairsOf("facts", rows.filter(Boolean));
}

function nextRuns(task) {
  const runs = task.next_runs ?? [];
  if (runs.length === 0) return nothing(t("task.no-next"));
  return h(
    "ol",
    { class: "plain next" },
    runs.map((run) => h("li", {}, momentOf(run), " ", h("span", { class: "soft" }, momentOf(run, { relative: true })))),
  );
}
