// The token, when the server asks for one. It is sent once; the browser then holds a cookie that no script can read.

import { post } from "./api.js";
import { h, put } from "./dom.js";
import { wordsFor } from "./notices.js";
import { t } from "./texts.js";

export function showLogin(root, entered) {
  const field = h("input", {
    id: "token",
    type: "password",
    autocomplete: "current-password",
    required: true,
    "aria-describedby": "token-problem",
  });
  const trouble = h("p", { id: "token-problem", class: "trouble", role: "alert" });
  const form = h(
    "form",
    { class: "login panel" },
    h("h1", {}, t("login.title")),
    h("p", { class: "soft" }, t("login.why")),
    h("label", { for: "token" }, t("login.token")),
    field,
    trouble,
    h("div", { class: "buttons" }, h("button", { type: "submit", class: "primary" }, t("login.enter"))),
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      await post("v1/session", { token: field.value.trim() });
    } catch (problem) {
      trouble.textContent = problem.status === 401 ? t("login.refused") : wordsFor(problem);
      field.select();
      return;
    }
    entered();
  });
  put(root, h("main", { id: "content", class: "narrow" }, form));
  field.focus();
}
