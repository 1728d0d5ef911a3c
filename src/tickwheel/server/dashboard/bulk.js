// One action on all tasks that match: first counted, then asked about, then done, with its progress shown.

import { get, post } from "./api.js";
import { ask, show } from "./dialogs.js";
import { h, put } from "./dom.js";
import { momentOf, number } from "./format.js";
import { attempt, notice, wordsFor } from "./notices.js";
import { mayWrite } from "./reader.js";
import { nothing, tableOf } from "./pieces.js";
import { t, word } from "./texts.js";

const ACTIONS = ["cancel", "pause", "resume", "retry", "run", "delete"];
const LOOK_MS = 400;

export function bulkBar(filter, done) {
  const choice = h(
    "select",
    { "aria-label": t("bulk.action") },
    ACTIONS.map((action) => h("option", { value: action }, t(`action.${action}`))),
  );
  const begin = h("button", { type: "button", on: { click: () => attempt(() => run(choice.value)) } }, t("bulk.begin"));
  const look = () => attempt(showHistory);
  const past = h("button", { type: "button", class: "quiet", on: { click: look } }, t("bulk.history"));
  const progress = h("span", { class: "progress", role: "status" });
  const element = h("div", { class: "bulk" }, mayWrite() && [choice, begin], progress, past);

  async function run(action) {
    const wanted = filter();
    const trial = await post("v1/operations", { action, filter: wanted, dry_run: true });
    if (trial.matched === 0) {
      notice(t("bulk.none"));
      return;
    }
    const sure = await ask({
      title: t("bulk.ask", { action: t(`action.${action}`), count: number(trial.matched) }),
      body: [h("p", {}, t("bulk.filter")), filterList(wanted)],
      confirm: t("bulk.confirm", { action: t(`action.${action}`), count: number(trial.matched) }),
      danger: action === "cancel" || action === "delete",
    });
    if (sure) await follow(await post("v1/operations", { action, filter: wanted, dry_run: false }));
  }

  async function follow(operation) {
    let now = operation;
    while (now.state === "running") {
      put(
        progress,
        h("progress", { max: Math.max(now.matched, 1), value: now.done, "aria-label": t("bulk.progress") }),
        ` ${number(now.done)} / ${number(now.matched)}`,
      );
      await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
      try {
        now = await get(`v1/operations/${encodeURIComponent(now.id)}`);
      } catch (problem) {
        put(progress, wordsFor(problem));
        return;
      }
    }
    put(progress);
    if (now.state === "failed") notice(t("bulk.failed", now.error ?? ""), "bad");
    else notice(t("bulk.done", { done: number(now.done), skipped: now.skipped, skippedText: number(now.skipped) }));
    done();
  }

  return {
    element,
    update(total) {
      const open = Object.keys(filter()).length > 0;
      begin.disabled = !open || total === 0;
      begin.title = open ? "" : t("bulk.needs-filter");
    },
  };
}

async function showHistory() {
  const { operations } = await get("v1/operations");
  const rows = operations.map((operation) =>
    h(
      "tr",
      {},
      h("td", {}, momentOf(operation.started)),
      h("th", { scope: "row" }, word("action", operation.action)),
      h("td", {}, filterList(operation.filter)),
      h("td", { class: "number" }, `${number(operation.done)} / ${number(operation.matched)}`),
      h("td", {}, word("operation", operation.state)),
    ));
  show({
    title: t("bulk.history"),
    body: rows.length === 0
      ? nothing(t("bulk.no-history"))
      : tableOf(
          t("bulk.history"),
          [t("field.started"), t("bulk.action"), t("filter.title"), t("bulk.count"), t("field.status")],
          h("tbody", {}, rows),
        ),
  });
}

function filterList(filter) {
  const entries = Object.entries(filter ?? {}).filter(([, value]) => value !== null && value !== "");
  const lines = entries.map(([name, value]) => `${word("filter", name)}: ${value}`);
  return h("ul", { class: "plain" }, lines.map((line) => h("li", {}, line)));
}
