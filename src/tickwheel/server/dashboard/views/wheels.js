// The wheels, turning: looked at once a second, animated in between.

import { get } from "../api.js";
import { h, put } from "../dom.js";
import { distance, duration, number } from "../format.js";
import { listen } from "../live.js";
import { say } from "../notices.js";
import { pairsOf, troubleOf } from "../pieces.js";
import { t } from "../texts.js";
import { onTheme } from "../theme.js";
import { every } from "../ticking.js";
import { Face } from "../wheels/face.js";
import { Motion } from "../wheels/motion.js";
import { recentEvents } from "../wheels/recent.js";
import { slotPanel, slotWords } from "../wheels/slot.js";
import { wheelsTable } from "../wheels/table.js";

const LOOK_MS = 1000;
const FIGURES_MS = 2000;
const STEPS = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowUp: [1, 0], ArrowDown: [-1, 0] };

export function show(root) {
  const canvas = h("canvas", {
    tabindex: "0", role: "application", "aria-label": t("wheels.face"), "aria-describedby": "wheels-summary",
  });
  const hint = h("div", { class: "hint", hidden: true, "aria-hidden": "true" });
  const trouble = h("div", {});
  const figures = h("div", {});
  const table = wheelsTable();
  const slot = slotPanel();
  const recent = recentEvents();
  const motion = new Motion();
  put(
    root,
    h("h1", { class: "unseen" }, t("place.wheels")),
    h("div", { class: "face" }, canvas, hint, trouble),
    h("div", { class: "beside" }, figures, slot.panel, recent.panel),
    table.element,
  );
  const face = new Face(canvas, motion);
  const calm = matchMedia("(prefers-reduced-motion: reduce)");

  const stopLooking = every(LOOK_MS, async () => {
    try {
      const wheels = await get("v1/wheels");
      motion.look(wheels.levels, performance.now() / 1000);
      face.far = wheels.far + wheels.overflow;
      table.draw(wheels);
      drawFigures({ wheels });
      put(trouble);
    } catch (problem) {
      put(trouble, troubleOf(problem));
    }
  });
  const stopCounting = every(FIGURES_MS, async () => {
    try {
      drawFigures({ stats: await get("v1/stats") });
    } catch {
      // Looking at the wheels tells of it.
    }
  });

  let known = {};
  function drawFigures(more) {
    known = { ...known, ...more };
    const { wheels, stats } = known;
    const timers = wheels?.levels.reduce((sum, level) => sum + level.timers, 0);
    const pairs = [
      [t("figure.timers"), wheels && number(timers)],
      [t("figure.far"), wheels && number(wheels.far)],
      [t("figure.next"), wheels && nextDue(wheels)],
      [t("figure.executed"), stats && t("per-second", number(stats.per_second.executed))],
      [t("figure.late"), stats && duration(stats.lateness.p99)],
      [t("figure.failed"), stats && number(stats.counts.failed ?? 0)],
    ];
    put(figures, pairsOf("figures-row", pairs.map(([name, value]) => [name, value ?? "…"])));
  }

  let frame = requestAnimationFrame(function paint(nowMs) {
    motion.move(nowMs / 1000, !calm.matches);
    face.fit();
    face.paint(nowMs);
    frame = requestAnimationFrame(paint);
  });

  function point(place, x, y) {
    face.pointed = place;
    hint.hidden = place === null;
    canvas.style.cursor = place === null ? "" : "pointer";
    if (place === null) return;
    hint.textContent = slotWords(motion.levels, place);
    const box = canvas.getBoundingClientRect();
    hint.style.left = `${Math.min(Math.max(x - box.left, 90), box.width - 90)}px`;
    hint.style.top = `${y - box.top - 14}px`;
  }

  function choose(place) {
    face.chosen = place;
    slot.open(motion.levels, place);
    say(slotWords(motion.levels, place));
  }

  canvas.addEventListener("pointermove", ({ clientX: x, clientY: y }) => point(face.slotAt(x, y), x, y));
  canvas.addEventListener("pointerleave", () => point(null));
  canvas.addEventListener("click", (event) => {
    const place = face.slotAt(event.clientX, event.clientY);
    if (place) choose(place);
  });
  canvas.addEventListener("keydown", (event) => {
    if (!(event.key in STEPS) || motion.levels.length === 0) return;
    event.preventDefault();
    choose(stepped(face.chosen, STEPS[event.key], motion.levels));
  });

  const leaveTheme = onTheme(() => face.recolour());
  const leaveEvents = listen((event) => event.kind === "reset" && motion.forget());

  return {
    close() {
      cancelAnimationFrame(frame);
      for (const stop of [stopLooking, stopCounting, leaveTheme, leaveEvents, slot.close, recent.close]) stop();
    },
  };
}

// When the next task is due; what was due by now is being run.
function nextDue({ next_due: due }) {
  if (due === null) return "–";
  return new Date(due) > Date.now() ? distance(due) : t("now");
}

// The slot beside another, by an arrow; the first one if there was none.
function stepped(from, [rings, slots], levels) {
  if (from === null) return { level: levels.length - 1, slot: 0 };
  const level = Math.min(Math.max(from.level + rings, 0), levels.length - 1);
  const turn = from.slot / levels[from.level].slots;
  const begin = rings === 0 ? from.slot : Math.floor(turn * levels[level].slots);
  return { level, slot: (begin + slots + levels[level].slots) % levels[level].slots };
}
