// What can be done with a task as it stands.

import { erase, patch, post, taskPath } from "../api.js";
import { ask } from "../dialogs.js";
import { h } from "../dom.js";
import { fromLocal } from "../format.js";
import { attempt, notice } from "../notices.js";
import { mayWrite } from "../reader.js";
import { isRecurring, shownStatus } from "../pieces.js";
import { go } from "../route.js";
import { t } from "../texts.js";

const OFFERED = {
  pending: ["run", "reschedule", "pause", "cancel", "delete"],
  paused: ["resume", "run", "reschedule", "cancel", "delete"],
  running: ["cancel"],
  completed: ["run", "delete"],
  failed: ["retry", "delete"],
  cancelled: ["retry", "delete"],
};

export function actionBar(task, done) {
  if (!mayWrite()) return null;
  const verbs = OFFERED[shownStatus(task)] ?? [];
  return h("div", { class: "actions", role: "group", "aria-label": t("task.actions") }, verbs.map(button));

  function button(verb) {
    const click = () => attempt(() => act(verb));
    const kind = verb === "cancel" || verb === "delete" ? "danger" : "";
    return h("button", { type: "button", "data-verb": verb, class: kind, on: { click } }, t(`action.${verb}`));
  }

  async function act(verb) {
    if (verb === "reschedule") return reschedule();
    if (verb === "cancel") return cancel();
    if (verb === "resume" && isRecurring(task)) return resume();
    if (verb === "delete") return remove();
    await post(taskPath(task.id, verb));
    notice(t(`did.${verb}`));
    done();
  }

  async function cancel() {
    const field = h("input", { id: "reason", maxlength: "500", autocomplete: "off" });
    const only = tick("run-only", t("task.run-only"));
    const offered = isRecurring(task) && task.status === "running";
    const body = [h("label", { for: "reason" }, t("task.reason")), field, offered && only.row];
    const answer = () => ({
      ...(field.value.trim() && { reason: field.value.trim() }),
      ...(only.input.checked && { run_only: true }),
    });
    const wanted = await ask({ title: t("task.ask-cancel"), body, confirm: t("action.cancel"), danger: true, answer });
    if (wanted === null) return;
    await post(taskPath(task.id, "cancel"), wanted);
    notice(t("did.cancel"));
    done();
  }

  // What a series missed meanwhile is made up for only if that is asked for.
  async function resume() {
    const missed = tick("run-missed", t("task.run-missed"));
    const answer = () => ({ run_missed: missed.input.checked });
    const wanted = await ask({
      title: t("task.ask-resume"), body: [missed.row], confirm: t("action.resume"), answer,
    });
    if (wanted === null) return;
    await post(taskPath(task.id, "resume"), wanted);
    notice(t("did.resume"));
    done();
  }

  function tick(id, words) {
    const input = h("input", { type: "checkbox", id });
    return { input, row: h("div", { class: "field tick" }, input, h("label", { for: id }, words)) };
  }

  async function remove() {
    const sure = await ask({ title: t("task.ask-delete"), confirm: t("action.delete"), danger: true });
    if (!sure) return;
    await erase(taskPath(task.id));
    notice(t("did.delete"));
    go(["tasks"]);
  }

  async function reschedule() {
    const told = { "aria-describedby": "when-problem" };
    const delay = h("input", { id: "new-delay", placeholder: "10m", autocomplete: "off", ...told });
    const at = h("input", { id: "new-at", type: "datetime-local", step: "1", ...told });
    const trouble = h("p", { id: "when-problem", class: "trouble", role: "alert" });
    const body = [
      h("label", { for: "new-delay" }, t("field.delay")), delay,
      h("label", { for: "new-at" }, t("or-at")), at,
      trouble,
    ];
    const check = () => {
      const one = (delay.value.trim() === "") !== (at.value === "");
      trouble.textContent = one ? "" : t("task.one-time");
      return one;
    };
    const answer = () => (at.value ? { at: fromLocal(at.value) } : { delay: delay.value.trim() });
    const when = await ask({ title: t("task.ask-reschedule"), body, confirm: t("action.reschedule"), check, answer });
    if (when === null) return;
    await patch(taskPath(task.id), when, { "If-Match": `"${task.version}"` });
    notice(t("did.reschedule"));
    done();
  }
}
