// A histogram, as SVG: a bar for each bucket, with its upper edge below it. The server counts as Prometheus does: each
// bucket holds what those below it hold, too.

import { h, put, s } from "../dom.js";
import { duration, number } from "../format.js";
import { tableOf } from "../pieces.js";
import { t } from "../texts.js";

const HEIGHT = 170;
const BOTTOM = 34;
const TOP = 20;

export function histogram({ title }) {
  const svg = s("svg", { height: HEIGHT, role: "img", class: "chart", "aria-label": title });
  const rows = h("tbody", {});
  const element = h(
    "section",
    { class: "panel" },
    h("h2", {}, title),
    svg,
    h(
      "details",
      {},
      h("summary", {}, t("charts.table")),
      tableOf(title, [t("charts.up-to"), t("charts.runs")], rows, "figures"),
    ),
  );

  return {
    element,
    draw(cumulative) {
      const below = [0, ...cumulative.map((bucket) => bucket.count)];
      const buckets = cumulative.map(({ le, count }, place) => ({ le, count: count - below[place] }));
      const most = Math.max(...buckets.map((bucket) => bucket.count), 1);
      const step = svg.clientWidth / Math.max(buckets.length, 1); // a unit is a pixel
      put(svg, buckets.map((bucket, place) => bar(bucket, place, step, most)));
      svg.setAttribute("aria-label", words(title, buckets));
      put(rows, buckets.map(row));
    },
  };
}

function bar(bucket, place, step, most) {
  const tall = (bucket.count / most) * (HEIGHT - TOP - BOTTOM);
  const x = place * step;
  const middle = x + step / 2;
  const low = HEIGHT - BOTTOM + 14 + (place % 2) * 12; // two rows, so that neighbours do not touch
  return [
    s("rect", { x: x + step * 0.14, width: step * 0.72, y: HEIGHT - BOTTOM - tall, height: tall, class: "bar" }),
    s("line", { x1: x, x2: x + step, y1: HEIGHT - BOTTOM, y2: HEIGHT - BOTTOM, class: "grid" }),
    bucket.count > 0 && label(middle, HEIGHT - BOTTOM - tall - 5, number(bucket.count)),
    label(middle, low, edge(bucket.le)),
  ];
}

function label(x, y, text) {
  return s("text", { x, y, class: "scale", "text-anchor": "middle" }, text);
}

function row({ le, count }) {
  return h("tr", {}, h("th", { scope: "row" }, edge(le)), h("td", {}, number(count)));
}

function edge(le) {
  return le === null ? "∞" : duration(le);
}

function words(title, buckets) {
  const held = buckets.filter((bucket) => bucket.count > 0);
  const told = held.map(({ le, count }) => `≤ ${edge(le)}: ${number(count)}`).join(", ");
  return `${title}: ${told || t("charts.none")}`;
}
