// What single keys do, and how arrows move in lists.

import { show } from "./dialogs.js";
import { h } from "./dom.js";
import { go } from "./route.js";
import { t } from "./texts.js";

const PLACES = { 1: ["wheels"], 2: ["tasks"], 3: ["new"], 4: ["charts"], 5: ["cluster"], n: ["new"] };

export function beginKeys() {
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    if (event.target.matches?.("input, textarea, select")) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    if (event.key === "/") {
      event.preventDefault();
      search();
    } else if (event.key === "?") {
      event.preventDefault();
      help();
    } else if (event.key in PLACES && document.getElementById("content")) {
      go(PLACES[event.key]);
    }
  });
}

// Let arrows, Home and End move between the links of a list; Enter opens one, as it does with any link.
export function walkable(list) {
  list.addEventListener("keydown", (event) => {
    const links = [...list.querySelectorAll("a[data-row]")];
    const place = links.indexOf(document.activeElement);
    const next = { ArrowDown: place + 1, ArrowUp: place - 1, Home: 0, End: links.length - 1 }[event.key];
    if (place < 0 || next === undefined || !links[next]) return;
    event.preventDefault();
    links[next].focus();
  });
}

export function help() {
  const keys = [
    ["/", t("keys.search")],
    ["?", t("keys.help")],
    ["1 – 5", t("keys.places")],
    ["n", t("keys.new")],
    ["↑ ↓", t("keys.walk")],
    ["Enter", t("keys.open")],
    ["← → ↑ ↓", t("keys.wheel")],
    ["Esc", t("keys.leave")],
  ];
  show({
    title: t("keys.title"),
    body: h("dl", { class: "keys" }, keys.map(([key, does]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, does)])),
  });
}

function search() {
  const field = document.querySelector("[data-search]");
  if (field) {
    field.focus();
    field.select();
  } else {
    go(["tasks"], { focus: "search" });
  }
}
