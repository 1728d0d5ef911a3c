// How the server does: throughput, lateness, failures and what waits, over the last minutes.

import { get } from "../api.js";
import { histogram } from "../charts/bars.js";
import { lineChart } from "../charts/line.js";
import { h, put } from "../dom.js";
import { duration, momentOf, number } from "../format.js";
import { pairsOf, troubleOf } from "../pieces.js";
import { t } from "../texts.js";
import { every } from "../ticking.js";

const LOOK_MS = 1000;

export function show(root) {
  const figures = h("div", {});
  const trouble = h("div", {});
  const throughput = lineChart({
    title: t("charts.throughput"),
    series: [
      { name: t("charts.added"), of: (point) => point.added, class: "steel" },
      { name: t("charts.executed"), of: (point) => point.executed, class: "brass" },
    ],
    format: number,
    least: 4,
  });
  const lateness = lineChart({
    title: t("charts.lateness-p99"),
    series: [{ name: "p99", of: (point) => point.late_p99, class: "steel" }],
    format: duration,
    least: 0.004,
  });
  const failures = lineChart({
    title: t("charts.failures"),
    series: [{ name: t("charts.failed"), of: (point) => point.failed, class: "ruby" }],
    format: number,
    least: 4,
    area: true,
  });
  const queue = lineChart({
    title: t("charts.queue"),
    series: [{ name: t("charts.queued"), of: (point) => point.queued, class: "moss" }],
    format: number,
    least: 4,
    area: true,
  });
  const spread = histogram({ title: t("charts.lateness") });
  put(
    root,
    h("h1", {}, t("place.charts")),
    trouble,
    figures,
    h("div", { class: "charts" }, [throughput, spread, lateness, failures, queue].map((chart) => chart.element)),
  );

  const stop = every(LOOK_MS, async () => {
    let stats;
    try {
      stats = await get("v1/stats");
    } catch (problem) {
      put(trouble, troubleOf(problem));
      return;
    }
    put(trouble);
    put(figures, pairsOf("figures-row", figuresOf(stats)));
    for (const chart of [throughput, lateness, failures, queue]) chart.draw(stats.history);
    spread.draw(stats.lateness.buckets);
  });
  return { close: stop };
}

function figuresOf(stats) {
  const { p50, p90, p99, max } = stats.lateness;
  return [
    [t("charts.p50"), duration(p50)],
    [t("charts.p90"), duration(p90)],
    [t("charts.p99"), duration(p99)],
    [t("charts.max"), duration(max)],
    [t("charts.queue"), t("of", { part: number(stats.queued), whole: number(stats.queued_max) })],
    [t("charts.oldest"), stats.oldest_due ? momentOf(stats.oldest_due, { relative: true }) : t("charts.nothing-waits")],
    [t("charts.since-start"), t("charts.totals", { executed: number(stats.executed), failed: number(stats.failed) })],
  ];
}
