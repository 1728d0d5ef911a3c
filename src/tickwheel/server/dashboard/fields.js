// The fields of a form, each with its label, its hint and a place for what is wrong with it.

import { h } from "./dom.js";
import { t } from "./texts.js";

export function fields(prefix) {
  const inputs = {};
  const troubles = {};

  function field(name, input) {
    const id = `${prefix}-${name}`;
    troubles[name] = h("p", { class: "trouble", id: `${id}-trouble` });
    inputs[name] = input;
    input.id = id;
    input.setAttribute("aria-describedby", `${id}-trouble`);
    return h("div", { class: "field" }, h("label", { for: id }, t(`field.${name}`)), input, troubles[name]);
  }

  return {
    text: (name, attributes) => field(name, h("input", attributes)),
    area: (name, attributes) => field(name, h("textarea", attributes)),
    choice: (name, values) =>
      field(name, h("select", {}, values.map((value) => h("option", { value }, t(`${name}.${value || "usual"}`))))),
    tick(name) {
      const id = `${prefix}-${name}`;
      inputs[name] = h("input", { type: "checkbox", id });
      return h("div", { class: "field tick" }, inputs[name], h("label", { for: id }, t(`field.${name}`)));
    },
    radios(name, values, chosen) {
      const buttons = values.map((value) => h("input", { type: "radio", name, value }));
      buttons.find((button) => button.value === chosen).checked = true;
      inputs[name] = { get value() { return buttons.find((button) => button.checked).value; } };
      return h(
        "fieldset",
        { class: "radios" },
        h("legend", {}, t(`field.${name}`)),
        buttons.map((button) => h("label", {}, button, h("span", {}, t(`${name}.${button.value}`)))),
      );
    },
    value(name) {
      const input = inputs[name];
      return input.type === "checkbox" ? input.checked : input.value.trim();
    },
    // Say what is wrong with a field; false if there is no such field.
    blame(name, detail) {
      if (!(name in troubles)) return false;
      troubles[name].textContent = detail;
      inputs[name].setAttribute("aria-invalid", "true");
      return true;
    },
    forgive() {
      for (const [name, trouble] of Object.entries(troubles)) {
        trouble.textContent = "";
        inputs[name].removeAttribute("aria-invalid");
      }
    },
  };
}
