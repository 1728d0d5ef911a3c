// The tasks: filtered by what the address says, a page at a time, kept up to date by the stream.

import { get } from "../api.js";
import { bulkBar } from "../bulk.js";
import { h, put } from "../dom.js";
import { filterForm, filterOf } from "../filters.js";
import { duration, momentOf, number } from "../format.js";
import { walkable } from "../keyboard.js";
import { listen } from "../live.js";
import { say } from "../notices.js";
import { amend, go, link } from "../route.js";
import { nothing, shownStatus, statusOf, tagsOf, triggerOf, troubleOf } from "../pieces.js";
import { t } from "../texts.js";
import { atMostEvery } from "../ticking.js";

const REFRESH_MS = 1000;
const LIMITS = ["25", "50", "100", "200"];

export function show(root, route) {
  let query = route.query;
  let trail = []; // the cursors of the pages before this one
  let asked = 0;
  let drawn = "";

  const filters = filterForm(query, (next) => {
    trail = [];
    amend(["tasks"], { ...next, order: query.order, limit: query.limit });
  });
  const count = h("p", { class: "count" });
  const bulk = bulkBar(() => filterOf(query), () => refresh());
  const body = h("div", {});
  const pages = h("nav", { class: "pages", "aria-label": t("tasks.pages") });
  const bar = h("div", { class: "bar" }, count, bulk.element);
  put(root, h("h1", {}, t("place.tasks")), filters.element, bar, body, pages);
  walkable(body);

  async function refresh() {
    asked += 1;
    const mine = asked;
    let page;
    try {
      const { focus, ...wanted } = query;
      page = await get("v1/tasks", { order: "newest", limit: 50, ...wanted, masked: true });
    } catch (problem) {
      if (mine !== asked) return;
      drawn = "";
      put(body, troubleOf(problem, refresh));
      put(pages);
      return;
    }
    if (mine === asked) draw(page);
  }

  function draw(page) {
    const text = t("tasks.count", { count: number(page.total), exact: page.total_is_exact });
    if (count.textContent !== text) count.textContent = text;
    bulk.update(page.total);
    const state = JSON.stringify([page, query]);
    if (state === drawn) return;
    drawn = state;
    const focused = document.activeElement?.dataset?.row;
    if (page.tasks.length === 0) put(body, emptiness());
    else put(body, table(page.tasks));
    if (focused) [...body.querySelectorAll("a[data-row]")].find((row) => row.dataset.row === focused)?.focus();
    drawPages(page);
  }

  function emptiness() {
    const filtered = Object.keys(filterOf(query)).length > 0;
    return filtered
      ? nothing(t("tasks.none-match"), h("button", { type: "button", on: { click: filters.clear } }, t("filter.clear")))
      : nothing(t("tasks.none"), h("a", { class: "button primary", href: "#/new" }, t("place.new")));
  }

  function table(tasks) {
    const order = query.order ?? "newest";
    const created = { newest: "descending", oldest: "ascending" }[order];
    return h(
      "table",
      { class: "tasks" },
      h("caption", { class: "unseen" }, t("place.tasks")),
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          h("th", { scope: "col" }, t("field.status")),
          h("th", { scope: "col" }, t("field.id")),
          h("th", { scope: "col" }, t("field.name")),
          sorter(t("field.due"), { due: "ascending" }[order], "due"),
          h("th", { scope: "col", class: "wide" }, t("field.trigger")),
          h("th", { scope: "col", class: "wide number" }, t("field.runs")),
          h("th", { scope: "col", class: "wide" }, t("field.tags")),
          sorter(t("field.created"), created, order === "newest" ? "oldest" : "newest", "wide"),
        ),
      ),
      h("tbody", {}, tasks.map(row)),
    );
  }

  function sorter(name, sorted, next, breadth = "") {
    const click = () => {
      trail = [];
      const { cursor, ...rest } = query;
      amend(["tasks"], { ...rest, order: next });
    };
    const arrow = h("span", { "aria-hidden": "true" }, { ascending: " ↑", descending: " ↓" }[sorted] ?? "");
    return h(
      "th",
      { scope: "col", class: breadth, "aria-sort": sorted ?? "none" },
      h("button", { type: "button", class: "sorter", on: { click } }, name, arrow),
    );
  }

  function drawPages(page) {
    const before = trail.length > 0 ? trail.at(-1) : null;
    const back = () => go(["tasks"], { ...query, cursor: before });
    const first = () => {
      trail = [];
      go(["tasks"], { ...query, cursor: "" });
    };
    const on = () => {
      trail.push(query.cursor ?? "");
      go(["tasks"], { ...query, cursor: page.cursor });
    };
    const limit = h(
      "select",
      { "aria-label": t("tasks.per-page"), value: query.limit ?? "50" },
      LIMITS.map((size) => h("option", { value: size }, t("tasks.rows", size))),
    );
    limit.addEventListener("change", () => {
      trail = [];
      amend(["tasks"], { ...query, cursor: "", limit: limit.value });
    });
    put(
      pages,
      h("button", { type: "button", disabled: !query.cursor, on: { click: first } }, t("tasks.first")),
      h("button", { type: "button", disabled: before === null, on: { click: back } }, t("tasks.back")),
      h("button", { type: "button", disabled: !page.cursor, on: { click: on } }, t("tasks.on")),
      limit,
    );
  }

  const soon = atMostEvery(REFRESH_MS, refresh);
  const leave = listen(soon);
  focusIfAsked();
  refresh();

  function focusIfAsked() {
    if (query.focus !== "search") return;
    const { focus, ...rest } = query;
    history.replaceState(null, "", link(["tasks"], rest));
    query = rest;
    filters.focus();
  }

  return {
    change(next) {
      query = next.query;
      if (trail.at(-1) === (query.cursor ?? "")) trail.pop(); // back, by our button or the browser's
      filters.fill(query);
      focusIfAsked();
      refresh().then(() => say(count.textContent));
    },
    close() {
      leave();
      soon.stop();
      filters.close();
    },
  };
}

function row(task) {
  return h(
    "tr",
    {},
    h("td", {}, statusOf(shownStatus(task))),
    h("th", { scope: "row" }, h("a", { href: link(["task", task.id]), class: "id", "data-row": task.id }, task.id)),
    h("td", { class: "name" }, task.name),
    h("td", {}, momentOf(task.due, { relative: true })),
    h("td", { class: "wide" }, triggerOf(task.trigger, duration)),
    h("td", { class: "wide number" }, number(task.runs)),
    h("td", { class: "wide" }, tagsOf(task.tags)),
    h("td", { class: "wide" }, momentOf(task.created)),
  );
}
