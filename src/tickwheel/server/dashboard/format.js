// Moments, durations and numbers as people read them.

import { h } from "./dom.js";
import { locale, t } from "./texts.js";

const UNITS = [
  ["d", 86_400],
  ["h", 3600],
  ["min", 60],
];

export function number(value) {
  return new Intl.NumberFormat(locale(), { maximumFractionDigits: 1 }).format(value);
}

// A duration in its two largest units: 0.0004 -> "0.4 ms", 75 -> "1 min 15 s".
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 0) return `−${duration(-seconds)}`;
  if (seconds === 0) return `0 ${t("unit.s")}`;
  if (seconds < 1) return `${number(Number((seconds * 1000).toPrecision(2)))} ${t("unit.ms")}`;
  if (seconds < 60) return `${number(Number(seconds.toPrecision(3)))} ${t("unit.s")}`;
  let rest = Math.round(seconds);
  const parts = [];
  for (const [unit, size] of [...UNITS, ["s", 1]]) {
    const count = Math.floor(rest / size);
    rest -= count * size;
    if (count > 0 || parts.length > 0) parts.push(count > 0 ? `${number(count)} ${t(`unit.${unit}`)}` : null);
    if (parts.length === 2) break;
  }
  return parts.filter(Boolean).join(" ");
}

export function moment(iso) {
  return new Intl.DateTimeFormat(locale(), {
    year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit",
    hourCycle: "h23",
  }).format(new Date(iso));
}

export function clockTime(iso) {
  return new Intl.DateTimeFormat(locale(), {
    hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23",
  }).format(new Date(iso));
}

// How far a moment is from now: "in 3 min 5 s", "2 h ago".
export function distance(iso) {
  const seconds = (new Date(iso) - Date.now()) / 1000;
  const rounded = Math.abs(seconds) < 10 ? Math.round(seconds * 10) / 10 : Math.round(seconds);
  if (rounded === 0) return t("now");
  return rounded > 0 ? t("in", duration(rounded)) : t("ago", duration(-rounded));
}

// A moment on the page; one that tells its distance is kept up to date by `beginDistances`.
export function momentOf(iso, { relative = false } = {}) {
  if (!iso) return h("span", { class: "soft" }, "–");
  return h(
    "time",
    { datetime: iso, title: moment(iso), "data-relative": relative },
    relative ? distance(iso) : moment(iso),
  );
}

export function beginDistances() {
  setInterval(() => {
    if (document.hidden) return;
    for (const element of document.querySelectorAll("time[data-relative]")) {
      const text = distance(element.dateTime);
      if (element.textContent !== text) element.textContent = text;
    }
  }, 1000);
}

// JSON for reading.
export function pretty(value) {
  return JSON.stringify(value, null, 2);
}

// What a field for local time holds, as a moment; nothing if it is empty.
export function fromLocal(text) {
  return text ? new Date(text).toISOString() : "";
}

// A moment as a field for local time wants it.
export function toLocal(iso) {
  if (!iso) return "";
  const date = new Date(iso);
  return new Date(date - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}
