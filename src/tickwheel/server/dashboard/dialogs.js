// Questions that want an answer before anything goes on.

import { freshId, h } from "./dom.js";
import { t } from "./texts.js";

// Ask something; `body` is what stands between title and buttons. The answer is what `answer` returns, or null.
export function ask({ title, body = [], confirm, danger = false, answer = () => true, check = () => true }) {
  return new Promise((resolve) => {
    const heading = freshId("dialog");
    const yes = h("button", { type: "submit", class: danger ? "danger" : "primary" }, confirm);
    const no = h("button", { type: "button" }, t("never-mind"));
    const form = h("form", {}, h("h2", { id: heading }, title), body, h("div", { class: "buttons" }, no, yes));
    const dialog = h("dialog", { "aria-labelledby": heading }, form);
    let given = null;
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (!check()) return;
      given = answer();
      dialog.close();
    });
    no.addEventListener("click", () => dialog.close());
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(given);
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

// Show something until it is closed.
export function show({ title, body }) {
  const heading = freshId("dialog");
  const close = h("button", { type: "button", class: "primary" }, t("close"));
  const dialog = h(
    "dialog",
    { "aria-labelledby": heading },
    h("h2", { id: heading }, title),
    body,
    h("div", { class: "buttons" }, close),
  );
  close.addEventListener("click", () => dialog.close());
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}
