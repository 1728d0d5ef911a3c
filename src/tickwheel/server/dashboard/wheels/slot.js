// What waits in a slot: asked for when the reader opens one, and again while it stays open.

import { get } from "../api.js";
import { h, put } from "../dom.js";
import { duration, momentOf, number } from "../format.js";
import { walkable } from "../keyboard.js";
import { link } from "../route.js";
import { nothing, troubleOf } from "../pieces.js";
import { t } from "../texts.js";
import { every } from "../ticking.js";

const AGAIN_MS = 2000;

// A slot in words: which dial, which slot, how many wait there.
export function slotWords(levels, { level, slot }) {
  const count = levels[level].occupancy[slot];
  return t("wheels.slot", { level, slot, count: number(count), length: duration(levels[level].slot_seconds) });
}

// A panel that shows one slot at a time.
export function slotPanel() {
  const list = h("div", {});
  const heading = h("h2", {}, t("wheels.slot-title"));
  const panel = h("section", { class: "panel slot", "aria-label": t("wheels.slot-title") }, heading, list);
  let stop = () => {};
  let shown = "";

  walkable(list);
  put(list, nothing(t("wheels.choose")));

  return {
    panel,
    close: () => stop(),
    open(levels, chosen) {
      stop();
      shown = "";
      heading.textContent = slotWords(levels, chosen);
      stop = every(AGAIN_MS, async () => {
        try {
          draw(await get(`v1/wheels/${chosen.level}/${chosen.slot}`));
        } catch (problem) {
          put(list, troubleOf(problem));
        }
      });
    },
  };

  function draw(answer) {
    const text = JSON.stringify(answer);
    if (text === shown) return;
    shown = text;
    const focused = document.activeElement?.getAttribute("href");
    if (answer.tasks.length === 0) {
      put(list, nothing(t("wheels.slot-empty")));
      return;
    }
    put(
      list,
      h("ul", { class: "plain" }, answer.tasks.map(row)),
      answer.more > 0 && h("p", { class: "soft" }, t("wheels.more", number(answer.more))),
    );
    if (focused) [...list.querySelectorAll("a")].find((a) => a.getAttribute("href") === focused)?.focus();
  }
}

function row(task) {
  return h(
    "li",
    {},
    h("a", { href: link(["task", task.id]), "data-row": true, class: "id" }, task.id),
    h("span", { class: "soft name" }, task.name),
    momentOf(task.due, { relative: true }),
  );
}
