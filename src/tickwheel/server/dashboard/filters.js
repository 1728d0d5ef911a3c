// The filters of the task list. They live in the address; the form shows them and changes them.

import { get } from "./api.js";
import { h } from "./dom.js";
import { fromLocal, toLocal } from "./format.js";
import { STATUSES } from "./pieces.js";
import { t } from "./texts.js";
import { afterQuiet } from "./ticking.js";

const FIELDS = ["text", "status", "name", "tag", "id_prefix", "due_after", "due_before"];
const MOMENTS = ["due_after", "due_before"];
const QUIET_MS = 250;

// What of an address is a filter, as the API takes it.
export function filterOf(query) {
  return Object.fromEntries(FIELDS.filter((name) => query[name]).map((name) => [name, query[name]]));
}

export function filterForm(query, changed) {
  const inputs = {
    text: h("input", { type: "search", "data-search": true, placeholder: t("filter.text-hint") }),
    status: h(
      "select",
      {},
      h("option", { value: "" }, t("filter.any")),
      STATUSES.map((status) => h("option", { value: status }, t(`status.${status}`))),
    ),
    name: h("input", { list: "names", autocomplete: "off" }),
    tag: h("input", { autocomplete: "off" }),
    id_prefix: h("input", { autocomplete: "off" }),
    due_after: h("input", { type: "datetime-local", step: "1" }),
    due_before: h("input", { type: "datetime-local", step: "1" }),
  };
  const names = h("datalist", { id: "names" });
  const later = afterQuiet(QUIET_MS, () => changed(read()));
  const clearButton = h("button", { type: "button", on: { click: clear } }, t("filter.clear"));
  const fewer = ["tag", "id_prefix", "due_after", "due_before"];
  const more = h(
    "details",
    { class: "more-filters" },
    h("summary", {}, t("filter.more")),
    h("div", { class: "fields" }, fewer.map(labelled)),
  );
  const element = h(
    "form",
    { class: "filters", role: "search", "aria-label": t("filter.title") },
    h("div", { class: "fields" }, ["text", "status", "name"].map(labelled), clearButton),
    more,
    names,
  );
  element.addEventListener("input", later);
  element.addEventListener("submit", (event) => {
    event.preventDefault();
    later.stop();
    changed(read());
  });
  fill(query);
  get("v1/handlers").then(
    ({ handlers }) => names.append(...handlers.map(({ name }) => h("option", { value: name }))),
    () => {}, // names can be typed
  );

  function labelled(name) {
    const id = `filter-${name}`;
    inputs[name].id = id;
    return h("div", { class: `field for-${name}` }, h("label", { for: id }, t(`filter.${name}`)), inputs[name]);
  }

  function read() {
    return Object.fromEntries(
      FIELDS.map((name) => [name, MOMENTS.includes(name) ? fromLocal(inputs[name].value) : inputs[name].value.trim()]),
    );
  }

  function fill(next) {
    for (const name of FIELDS) {
      if (inputs[name] === document.activeElement) continue; // the reader is writing
      inputs[name].value = MOMENTS.includes(name) ? toLocal(next[name]) : next[name] ?? "";
    }
    clearButton.hidden = Object.keys(filterOf(next)).length === 0;
    if (fewer.some((name) => next[name])) more.open = true;
  }

  function clear() {
    later.stop();
    for (const name of FIELDS) inputs[name].value = "";
    changed({});
  }

  return { element, fill, clear, close: later.stop, focus: () => inputs.text.focus() };
}
