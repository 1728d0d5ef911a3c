// Lines over time, as SVG: a scale, a line for each series, and a readout of the moment the pointer is at.

import { h, put, s } from "../dom.js";
import { clockTime } from "../format.js";
import { columns } from "../states.js";
import { t } from "../texts.js";

const WIDTH = 600;
const HEIGHT = 160;
const LEFT = 58;
const BOTTOM = 22;
const TOP = 10;
const LINES = 4; // of the scale
const TABLE_ROWS = 20;

// A chart of `series` [{name, of: point -> value, class}]; `format` writes a value.
export function lineChart({ title, series, format, area = false }) {
  const svg = s("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", class: "chart", preserveAspectRatio: "none" });
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
      h("table", { class: "figures" }, h("caption", { class: "unseen" }, title), columns(t("charts.time"), ...series.map((one) => one.name)), rows),
    ),
  );
  let points = [];
  let pointed = null;

  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const part = ((event.clientX - box.left) / box.width * WIDTH - LEFT) / (WIDTH - LEFT);
    pointed = Math.round(part * (points.length - 1));
    drawReadout();
  });
  svg.addEventListener("pointerleave", () => {
    pointed = null;
    drawReadout();
  });

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
      const top = scaleEnd(Math.max(...points.flatMap((point) => series.map((one) => one.of(point) ?? 0)), 0));
      const x = (place) => LEFT + (place / Math.max(points.length - 1, 1)) * (WIDTH - LEFT);
      const y = (value) => TOP + (1 - value / top) * (HEIGHT - TOP - BOTTOM);
      put(svg, scale(top, y, format), moments(points, x), series.map((one) => curve(one, points, x, y, area)));
      svg.setAttribute("aria-label", points.length ? t("charts.now", { title, values: values(points.at(-1)) }) : `${title}: ${t("charts.none")}`);
      const latest = points.slice(-TABLE_ROWS).reverse();
      put(rows, latest.map((point) => h("tr", {}, h("th", { scope: "row" }, clockTime(point.at)), series.map((one) => h("td", {}, format(one.of(point)))))));
      drawReadout();
    },
  };
}

function curve(one, points, x, y, area) {
  const known = points.map((point, place) => [place, one.of(point)]).filter(([, value]) => value !== null && value !== undefined);
  if (known.length === 0) return null;
  const way = known.map(([place, value], step) => `${step ? "L" : "M"}${x(place).toFixed(1)} ${y(value).toFixed(1)}`).join("");
  const ground = area && `${way}L${x(known.at(-1)[0]).toFixed(1)} ${y(0)}L${x(known[0][0]).toFixed(1)} ${y(0)}Z`;
  return [area && s("path", { d: ground, class: `area ${one.class}` }), s("path", { d: way, class: `curve ${one.class}` })];
}

function scale(top, y, format) {
  return Array.from({ length: LINES + 1 }, (_, line) => (top * line) / LINES).map((value) => [
    s("line", { x1: LEFT, x2: WIDTH, y1: y(value), y2: y(value), class: "grid" }),
    s("text", { x: LEFT - 8, y: y(value) + 3.5, class: "scale", "text-anchor": "end" }, format(value)),
  ]);
}

function moments(points, x) {
  if (points.length < 2) return null;
  const places = [0, Math.floor((points.length - 1) / 2), points.length - 1];
  return places.map((place, step) =>
    s("text", { x: x(place), y: HEIGHT - 6, class: "scale", "text-anchor": ["start", "middle", "end"][step] }, clockTime(points[place].at)));
}

// A round number not below a value: 1, 2, 4 or 8 times a power of ten, so that a quarter of it is round too.
export function scaleEnd(value) {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 4, 8, 10].map((times) => times * power).find((end) => end >= value * 0.999);
}
