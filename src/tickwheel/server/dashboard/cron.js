// What a cron expression means, while it is written: in words, its next runs, and what daylight saving does to them.

import { post } from "./api.js";
import { h, put } from "./dom.js";
import { wordsFor } from "./notices.js";
import { t } from "./texts.js";
import { afterQuiet } from "./ticking.js";

const QUIET_MS = 250;
const RUNS = 5;

export function cronPreview() {
  const element = h("div", { class: "preview", role: "status", "aria-label": t("cron.preview") });
  let asked = 0;
  const update = afterQuiet(QUIET_MS, async (cron, tz) => {
    asked += 1;
    const mine = asked;
    if (cron === "") {
      put(element);
      return;
    }
    try {
      const answer = await post("v1/cron:preview", { cron, tz: tz || "UTC", count: RUNS });
      if (mine === asked) draw(answer);
    } catch (problem) {
      if (mine === asked) put(element, h("p", { class: "trouble" }, wordsFor(problem)));
    }
  });

  function draw({ words, runs }) {
    const lines = runs.map(({ local, note }) => h("li", {}, local, note && h("span", { class: "soft" }, ` ${note}`)));
    put(element, h("p", {}, words), h("ol", { class: "plain" }, lines));
  }

  return { element, update, close: update.stop };
}
