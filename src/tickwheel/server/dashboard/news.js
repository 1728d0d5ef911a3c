// Reads aloud, now and then and in one sentence, what happened to tasks: for those who do not see the page move.

import { listen } from "./live.js";
import { say } from "./notices.js";
import { t } from "./texts.js";
import { atMostEvery } from "./ticking.js";

const PAUSE_MS = 10_000;

export function beginNews() {
  let completed = 0;
  let failed = 0;
  const tell = atMostEvery(PAUSE_MS, () => {
    say(t("news", { completed, failed }));
    completed = 0;
    failed = 0;
  });
  listen((event) => {
    if (event.kind === "completed") completed += 1;
    else if (event.kind === "failed") failed += 1;
    else return;
    tell();
  });
}
