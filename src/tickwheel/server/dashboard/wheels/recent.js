// The last things that happened, newest first. However many there are, the page is changed a few times a second.

import { h, put } from "../dom.js";
import { clockTime, duration } from "../format.js";
import { lastHeard, listen } from "../live.js";
import { link } from "../route.js";
import { nothing } from "../pieces.js";
import { t, word } from "../texts.js";
import { atMostEvery } from "../ticking.js";

const PAUSE_MS = 300;

export function recentEvents() {
  const list = h("ol", { class: "plain recent" });
  const empty = nothing(t("recent.none"));
  const panel = h(
    "section",
    { class: "panel", "aria-label": t("recent.title") },
    h("h2", {}, t("recent.title")),
    empty,
    list,
  );
  const draw = atMostEvery(PAUSE_MS, () => {
    empty.hidden = lastHeard().length > 0;
    put(list, lastHeard().map(row));
  });
  const leave = listen(draw);
  draw();
  return {
    panel,
    close() {
      leave();
      draw.stop();
    },
  };
}

function row(event) {
  const more = event.late !== null && event.late !== undefined && event.kind === "started"
    ? t("late-by", duration(event.late))
    : event.took !== null && event.took !== undefined ? duration(event.took) : "";
  return h(
    "li",
    {},
    h("time", { datetime: event.at, class: "soft" }, clockTime(event.at)),
    h("span", { class: `kind ${event.kind}` }, word("kind", event.kind)),
    h("a", { href: link(["task", event.task_id]), class: "id" }, event.task_id),
    h("span", { class: "soft more" }, more),
  );
}
