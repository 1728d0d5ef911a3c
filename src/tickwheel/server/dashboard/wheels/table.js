// The wheels in words and numbers: for a screen reader, and for whoever wants figures.

import { h, put } from "../dom.js";
import { duration, number } from "../format.js";
import { columns } from "../states.js";
import { t } from "../texts.js";

export function wheelsTable() {
  const rows = h("tbody", {});
  const summary = h("p", { id: "wheels-summary", class: "soft" });
  const element = h(
    "details",
    { class: "panel" },
    h("summary", {}, t("wheels.table")),
    summary,
    h(
      "table",
      { class: "figures" },
      h("caption", { class: "unseen" }, t("wheels.table")),
      columns(t("wheels.level"), t("wheels.slot-length"), t("wheels.turn"), t("wheels.hand"), t("wheels.timers"), t("wheels.fullest")),
      rows,
    ),
  );
  return {
    element,
    draw(wheels) {
      const timers = wheels.levels.reduce((sum, level) => sum + level.timers, 0);
      summary.textContent = t("wheels.summary", { timers: number(timers), levels: wheels.levels.length, far: number(wheels.far) });
      put(rows, wheels.levels.map(row));
    },
  };
}

function row(level) {
  const most = Math.max(...level.occupancy, 0);
  return h(
    "tr",
    {},
    h("th", { scope: "row" }, level.level),
    h("td", {}, duration(level.slot_seconds)),
    h("td", {}, duration(level.slot_seconds * level.slots)),
    h("td", { "data-hand": level.level }, level.hand),
    h("td", {}, number(level.timers)),
    h("td", {}, most === 0 ? "–" : t("wheels.fullest-slot", { slot: level.occupancy.indexOf(most), count: number(most) })),
  );
}
