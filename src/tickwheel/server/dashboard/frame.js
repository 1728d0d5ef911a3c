// What stands around every view: the name, the places, the state of the stream, and the switches.

import { erase } from "./api.js";
import { h, put, s } from "./dom.js";
import { help } from "./keyboard.js";
import { watchStream } from "./live.js";
import { attempt } from "./notices.js";
import { hasSession } from "./reader.js";
import { LANGUAGES, currentLanguage, t } from "./texts.js";
import { setTheme, theme } from "./theme.js";

const PLACES = ["wheels", "tasks", "new", "charts", "cluster"];
let leaveStream = () => {};

// Build the page around a view; returns the element the view lives in.
export function buildFrame(root, { changeLanguage, leave }) {
  leaveStream();
  const content = h("main", { id: "content", tabindex: "-1" });
  const skip = h("a", { class: "skip", href: "#content" }, t("skip"));
  skip.addEventListener("click", (event) => {
    event.preventDefault();
    content.focus();
  });
  put(
    root,
    skip,
    h(
      "header",
      { class: "top" },
      h("a", { class: "brand", href: "#/wheels" }, mark(), h("span", {}, "tickwheel")),
      h(
        "nav",
        { "aria-label": t("places") },
        PLACES.map((place) => h("a", { href: `#/${place}`, "data-place": place }, t(`place.${place}`))),
      ),
      h(
        "div",
        { class: "tools" },
        streamSign(),
        themeSwitch(),
        languageSwitch(changeLanguage),
        h("button", { type: "button", class: "quiet", "aria-label": t("keys.title"), on: { click: help } }, "?"),
        hasSession() && leaveButton(leave),
      ),
    ),
    content,
  );
  return content;
}

// Mark the place the reader is at.
export function markPlace(place) {
  for (const link of document.querySelectorAll("nav [data-place]")) {
    if (link.dataset.place === place) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

function mark() {
  return s(
    "svg",
    { viewBox: "0 0 32 32", width: "28", height: "28", "aria-hidden": "true", class: "mark" },
    s("circle", { cx: 16, cy: 16, r: 14 }),
    s("circle", { cx: 16, cy: 16, r: 9, "stroke-dasharray": "3 1.71" }),
    s("path", { d: "M16 16V5M16 16l7 4" }),
  );
}

function streamSign() {
  const sign = h("span", { class: "stream", role: "status" });
  leaveStream = watchStream((state) => {
    sign.dataset.state = state;
    sign.textContent = t(`stream.${state}`);
  });
  return sign;
}

function themeSwitch() {
  const choices = ["system", "light", "dark"];
  const select = h(
    "select",
    { "aria-label": t("theme"), value: theme() },
    choices.map((name) => h("option", { value: name }, t(`theme.${name}`))),
  );
  select.addEventListener("change", () => setTheme(select.value));
  return select;
}

function languageSwitch(change) {
  const select = h(
    "select",
    { "aria-label": t("language"), value: currentLanguage() },
    Object.entries(LANGUAGES).map(([code, name]) => h("option", { value: code, lang: code }, name)),
  );
  select.addEventListener("change", () => change(select.value));
  return select;
}

function leaveButton(leave) {
  const click = () => attempt(async () => {
    await erase("v1/session");
    leave();
  });
  return h("button", { type: "button", class: "quiet", on: { click } }, t("login.leave"));
}
