// A new task: what is to be done, when, and how stubbornly.

import { get, post } from "../api.js";
import { cronPreview } from "../cron.js";
import { h, put } from "../dom.js";
import { fields } from "../fields.js";
import { fromLocal } from "../format.js";
import { notice, wordsFor } from "../notices.js";
import { mayWrite } from "../reader.js";
import { go } from "../route.js";
import { nothing } from "../pieces.js";
import { t } from "../texts.js";

const KINDS = ["handler", "webhook", "queue"];
const WHENS = ["delay", "at", "every", "cron"];
const LATE = ["", "run_once", "run_all", "skip"];
const OVERLAPS = ["", "skip", "queue_one"];
const CONFLICTS = ["reject", "replace", "keep", "debounce"];

export function show(root) {
  if (!mayWrite()) {
    put(root, h("h1", {}, t("place.new")), nothing(t("new.read-only")));
    return { close() {} };
  }
  const form = fields("new");
  const { text, choice, radios, area, tick } = form;
  const preview = cronPreview();
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const handlers = h("datalist", { id: "handlers" });
  const zones = h("datalist", { id: "zones" });
  zones.append(...Intl.supportedValuesOf("timeZone").map((value) => h("option", { value })));
  const trouble = h("p", { class: "trouble", role: "alert" });
  const submit = h("button", { type: "submit", class: "primary" }, t("new.add"));

  const what = {
    handler: text("handler", { list: "handlers", autocomplete: "off" }),
    webhook: text("webhook", { type: "url", placeholder: "https://" }),
    queue: text("queue", { autocomplete: "off" }),
  };
  const when = {
    delay: text("delay", { placeholder: "5m", autocomplete: "off" }),
    at: text("at", { type: "datetime-local", step: "1" }),
    every: text("every", { placeholder: "1h", autocomplete: "off" }),
    cron: h(
      "div",
      { class: "fields" },
      text("cron", { placeholder: "0 9 * * 1-5", autocomplete: "off", spellcheck: "false" }),
      text("tz", { list: "zones", value: zone, autocomplete: "off" }),
      preview.element,
    ),
  };
  const element = h(
    "form",
    { class: "panel new", novalidate: true, "aria-label": t("place.new") },
    radios("kind", KINDS, "handler"),
    Object.values(what),
    area("args", { rows: 4, spellcheck: "false", value: "{}" }),
    radios("when", WHENS, "delay"),
    Object.values(when),
    h(
      "details",
      {},
      h("summary", {}, t("new.more")),
      h(
        "div",
        { class: "fields" },
        text("id", { autocomplete: "off" }),
        choice("on_conflict", CONFLICTS),
        text("tags", { placeholder: "vip, eu", autocomplete: "off" }),
        text("priority", { type: "number", step: "1" }),
        text("times", { type: "number", step: "1", min: "-1" }),
        text("retries", { type: "number", step: "1", min: "0" }),
        text("timeout", { placeholder: "5m", autocomplete: "off" }),
        choice("late", LATE),
        choice("overlap", OVERLAPS),
        text("max_crashes", { type: "number", step: "1", min: "1" }),
        text("expires_at", { type: "datetime-local", step: "1" }),
        tick("at_most_once"),
      ),
    ),
    trouble,
    h("div", { class: "buttons" }, submit),
    handlers,
    zones,
  );
  put(root, h("h1", {}, t("place.new")), element);
  reveal();

  get("v1/handlers").then(
    (answer) => handlers.append(...answer.handlers.map(({ name }) => h("option", { value: name }))),
    () => {}, // names can be typed
  );
  element.addEventListener("change", reveal);
  element.addEventListener("input", () => {
    if (form.value("when") === "cron") preview.update(form.value("cron"), form.value("tz"));
  });
  element.addEventListener("submit", async (event) => {
    event.preventDefault();
    await add();
  });

  function reveal() {
    for (const kind of KINDS) what[kind].hidden = form.value("kind") !== kind;
    for (const way of WHENS) when[way].hidden = form.value("when") !== way;
  }

  async function add() {
    form.forgive();
    trouble.textContent = "";
    const body = read();
    if (body === null) return;
    submit.disabled = true;
    try {
      const { task, deduplicated } = await post("v1/tasks", body);
      notice(t(deduplicated ? "new.kept" : "new.added"));
      go(["task", task.id]);
    } catch (problem) {
      trouble.textContent = wordsFor(problem);
      const blamed = problem.errors.filter((error) => form.blame(fieldOf(error.pointer), error.detail));
      if (blamed.length > 0) element.querySelector("[aria-invalid=true]").focus();
    } finally {
      submit.disabled = false;
    }
  }

  // The body of the request; null if something is wrong already.
  function read() {
    let args;
    try {
      args = JSON.parse(form.value("args") || "{}");
    } catch (wrong) {
      form.blame("args", t("new.not-json", wrong.message));
      element.querySelector("[aria-invalid=true]").focus();
      return null;
    }
    const kind = form.value("kind");
    const way = form.value("when");
    const name = form.value(kind);
    const body = { args, [kind]: kind === "webhook" ? { url: name } : name };
    body[way] = way === "at" ? fromLocal(form.value("at")) : form.value(way);
    if (way === "cron") body.tz = form.value("tz");
    for (const field of ["id", "timeout", "late", "overlap"]) {
      if (form.value(field)) body[field] = form.value(field);
    }
    for (const field of ["priority", "times", "retries", "max_crashes"]) {
      if (form.value(field)) body[field] = Number(form.value(field));
    }
    const tags = form.value("tags").split(",").map((tag) => tag.trim()).filter(Boolean);
    if (tags.length > 0) body.tags = tags;
    if (form.value("expires_at")) body.expires_at = fromLocal(form.value("expires_at"));
    if (form.value("on_conflict") !== "reject") body.on_conflict = form.value("on_conflict");
    if (form.value("at_most_once")) body.at_most_once = true;
    return body;
  }

  return { close: preview.close };
}

// Which field a pointer into the body is about: "/webhook/url" -> "webhook".
function fieldOf(pointer) {
  return pointer.split("/")[1] ?? "";
}
