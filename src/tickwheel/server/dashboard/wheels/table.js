// The wheels in words and numbers: for a screen reader, and for whoever wants figures.

import { h, put } from "../dom.js";
import { duration, number } from "../format.js";
import { tableOf } from "../pieces.js";
import { t } from "../texts.js";

const COLUMNS = ["level", "slot-length", "turn", "hand", "timers", "fullest"];

export function wheelsTable() {
  const rows = h("tbody", {});
  const summary = h("p", { id: "wheels-summary", class: "soft" });
  const element = h(
    "details",
    { class: "panel" },
    h("summary", {}, t("wheels.table")),
    summary,
    tableOf(t("wheels.table"), COLUMNS.map((name) => t(`wheels.${name}`)), rows, "figures"),
  );
  return {
    element,
    draw(wheels) {
      const timers = number(wheels.levels.reduce((sum, level) => sum + level.timers, 0));
      summary.textContent = t("wheels.summary", { timers, levels: wheels.levels.length, far: number(wheels.far) });
      put(rows, wheels.levels.map(row));
    },
  };
}

function row(level) {
  const most = Math.max(...level.occupancy, 0);
  const fullest = t("wheels.fullest-slot", { slot: level.occupancy.indexOf(most), count: number(most) });
  return h(
    "tr",
    {},
    h("th", { scope: "row" }, level.level),
    h("td", {}, duration(level.slot_seconds)),
    h("td", {}, duration(level.slot_seconds * level.slots)),
    h("td", { "data-hand": level.level }, level.hand),
    h("td", {}, number(level.timers)),
    h("td", {}, most === 0 ? "–" : fullest),
  );
}
