// Lines over time, as SVG: a scale, a line for each series, and a readout of the moment the pointer is at.

import { h, put, s } from "../dom.js";
import { clockTime } from "../format.js";
import { tableOf } from "../pieces.js";
import { t } from "../texts.js";

const HEIGHT = 160;
const LEFT = 58;
const BOTTOM = 22;
const TOP = 10;
const LINES = 4; // of the scale
const TABLE_ROWS = 20;

// A chart of `series` [{name, of: point -> value, class}]. `format` writes a value; the scale ends at `least` or above.
export function lineChart({ title, series, format, least, area = false }) {
  const svg = s("svg", { height: HEIGHT, role: "img", class: "chart", "aria-label": title });
  const readout = h("p", { class: "readout soft", "aria-hidden": "true" });
  const rows = h("tbody", {});
  const element = h(
    "section",
    { class: "panel" },
    h("h2", {}, title),
    h("p", { class: "legend" }, series.map((one) => h("span", { class: `key ${one.class}` }, one.name))),
    svg,
    readout,
    h(
      "details",
      {},
      h("summary", {}, t("charts.table")),
      tableOf(title, [t("charts.time"), ...series.map((one) => one.name)], rows, "figures"),
    ),
  );
  let points = [];
  let pointed = null;

  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const part = (event.clientX - box.left - LEFT) / (box.width - LEFT);
    pointed = Math.round(part * (points.length - 1));
    drawReadout();
  });
  svg.addEventListener("pointerleave", () => {
    pointed = null;
    drawReadout();
  });

  function row(point) {
    const cells = series.map((one) => h("td", {}, format(one.of(point))));
    return h("tr", {}, h("th", { scope: "row" }, clockTime(point.at)), cells);
  }

  function values(point) {
    return series.map((one) => `${one.name} ${format(one.of(point))}`).join(", ");
  }

  function drawReadout() {
    const point = points[Math.min(Math.max(pointed ?? points.length - 1, 0), points.length - 1)];
    readout.textContent = point ? `${clockTime(point.at)} · ${values(point)}` : "";
  }

  return {
    element,
    draw(next) {
      points = next;
      const top = scaleEnd(Math.max(least, ...points.flatMap((point) => series.map((one) => one.of(point)))));
      const width = svg.clientWidth; // a unit is a pixel, so that text is as large on a phone
      const x = (place) => LEFT + (place / Math.max(points.length - 1, 1)) * (width - LEFT);
      const y = (value) => TOP + (1 - value / top) * (HEIGHT - TOP - BOTTOM);
      put(svg, scale(top, width, y, format), moments(points, x), series.map((one) => curve(one, points, x, y, area)));
      const told = points.length > 0 ? values(points.at(-1)) : t("charts.none");
      svg.setAttribute("aria-label", t("charts.now", { title, values: told }));
      put(rows, points.slice(-TABLE_ROWS).reverse().map(row));
      drawReadout();
    },
  };
}

function curve(one, points, x, y, area) {
  if (points.length === 0) return null;
  const way = `M${points.map((point, place) => `${x(place).toFixed(1)} ${y(one.of(point)).toFixed(1)}`).join("L")}`;
  const ground = `${way}L${x(points.length - 1).toFixed(1)} ${y(0)}L${x(0)} ${y(0)}Z`;
  return [
    area && s("path", { d: ground, class: `area ${one.class}` }),
    s("path", { d: way, class: `curve ${one.class}` }),
  ];
}

function scale(top, width, y, format) {
  return Array.from({ length: LINES + 1 }, (_, line) => (top * line) / LINES).map((value) => [
    s("line", { x1: LEFT, x2: width, y1: y(value), y2: y(value), class: "grid" }),
    s("text", { x: LEFT - 8, y: y(value) + 3.5, class: "scale", "text-anchor": "end" }, format(value)),
  ]);
}

function moments(points, x) {
  if (points.length < 2) return null;
  const places = { start: 0, middle: Math.floor((points.length - 1) / 2), end: points.length - 1 };
  return Object.entries(places).map(([anchor, place]) =>
    s("text", { x: x(place), y: HEIGHT - 6, class: "scale", "text-anchor": anchor }, clockTime(points[place].at)));
}

// A round number not below a value: 1, 2, 4 or 8 times a power of ten, so that a quarter of it is round too.
function scaleEnd(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 4, 8, 10].map((times) => times * power).find((end) => end >= value * 0.999);
}
