// Begins the dashboard: the reader's language, who they are, and then whichever view the address names.
//
// A view is a module with `show(root, route)`. It returns `close()`, and `change(route)` if it can follow a new address
// of its own without being built again.

import { onRefusal } from "./api.js";
import { h, put } from "./dom.js";
import { beginDistances } from "./format.js";
import { buildFrame, markPlace } from "./frame.js";
import { beginKeys } from "./keyboard.js";
import { beginStream, endStream } from "./live.js";
import { showLogin } from "./login.js";
import { beginNews } from "./news.js";
import { troubleOf } from "./pieces.js";
import { isStranger, learnReader } from "./reader.js";
import { here } from "./route.js";
import { beginLanguage, setLanguage, t } from "./texts.js";

const VIEWS = {
  wheels: () => import("./views/wheels.js"),
  tasks: () => import("./views/tasks.js"),
  task: () => import("./views/task.js"),
  new: () => import("./views/new.js"),
  charts: () => import("./views/charts.js"),
  cluster: () => import("./views/cluster.js"),
};
const RETRY_MS = 3000;

const page = document.getElementById("page");
let content = null;
let shown = null; // {name, path, close, change}

async function enter() {
  closeShown();
  try {
    await learnReader();
  } catch (problem) {
    put(page, h("main", { class: "narrow" }, troubleOf(problem)));
    setTimeout(enter, RETRY_MS);
    return;
  }
  if (isStranger()) {
    endStream();
    document.title = `${t("login.title")} · tickwheel`;
    showLogin(page, enter);
    return;
  }
  build();
  beginStream();
}

function build() {
  closeShown();
  content = buildFrame(page, { changeLanguage, leave: enter });
  document.getElementById("notices").setAttribute("aria-label", t("notices"));
  follow();
}

async function changeLanguage(name) {
  await setLanguage(name);
  build();
}

async function follow() {
  if (content === null || !content.isConnected) return;
  const route = here();
  const name = Object.hasOwn(VIEWS, route.path[0]) ? route.path[0] : "wheels";
  if (shown?.name === name && shown.change && shown.path === route.path.join("/")) {
    shown.change(route);
    return;
  }
  const first = shown === null;
  closeShown();
  const mine = { name, path: route.path.join("/"), close: () => {}, change: null };
  shown = mine;
  markPlace(name === "task" ? "tasks" : name);
  document.title = `${t(`place.${name}`)} · tickwheel`;
  const view = await VIEWS[name]();
  if (shown !== mine) return;
  content.className = `view-${name}`;
  put(content);
  Object.assign(mine, view.show(content, route));
  if (first) return;
  scrollTo(0, 0);
  if (!content.contains(document.activeElement)) content.focus({ preventScroll: true });
}

function closeShown() {
  shown?.close();
  shown = null;
}

await beginLanguage();
onRefusal(() => {
  if (!isStranger()) enter();
});
addEventListener("hashchange", follow);
beginKeys();
beginDistances();
beginNews();
enter();
