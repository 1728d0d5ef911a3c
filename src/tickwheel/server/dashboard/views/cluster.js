// The cluster: which nodes there are, which partitions each owns, and until when.

import { get } from "../api.js";
import { h, put } from "../dom.js";
import { momentOf, number } from "../format.js";
import { nothing, tableOf, troubleOf } from "../pieces.js";
import { t } from "../texts.js";
import { every } from "../ticking.js";

const LOOK_MS = 1000;
const HUES = 6; // as many as views.css has; nodes beyond share them, and are told apart by their letters

export function show(root) {
  const body = h("div", {});
  let drawn = "";
  put(root, h("h1", {}, t("place.cluster")), body);
  const stop = every(LOOK_MS, async () => {
    try {
      const cluster = await get("v1/cluster");
      const owners = cluster.partitions.map(({ partition, node }) => [partition, node]);
      const shape = JSON.stringify([cluster.nodes, owners]);
      if (shape !== drawn) draw(cluster);
      drawn = shape;
      update(cluster);
    } catch (problem) {
      drawn = "";
      put(body, troubleOf(problem));
    }
  });

  function draw(cluster) {
    if (cluster.partitions.length === 0 && cluster.nodes.length === 0) {
      put(body, nothing(t("cluster.none")));
      return;
    }
    const marks = new Map(cluster.nodes.map(({ node }, place) => [node, markOf(place)]));
    put(body, nodes(cluster, marks), map(cluster, marks), leases(cluster));
  }

  // Leases are renewed all the time: only their ends are written anew.
  function update(cluster) {
    for (const { partition, expires, epoch } of cluster.partitions) {
      const cell = body.querySelector(`[data-lease="${partition}"]`);
      if (cell) put(cell, momentOf(expires, { relative: true }));
      const number = body.querySelector(`[data-epoch="${partition}"]`);
      if (number) number.textContent = epoch;
    }
  }
  return { close: stop };
}

function nodes(cluster, marks) {
  return h(
    "section",
    { class: "panel" },
    h("h2", {}, t("cluster.nodes")),
    h(
      "ul",
      { class: "plain nodes" },
      cluster.nodes.map((node) => {
        const { hue, letter } = marks.get(node.node);
        return h(
          "li",
          {},
          h("span", { class: `partition hue-${hue}`, "aria-hidden": "true" }, letter),
          h("span", { class: "id" }, node.node),
          node.this && h("span", { class: "tag" }, t("cluster.this")),
          h("span", { class: "soft" }, t("cluster.owns", number(node.partitions.length))),
        );
      }),
    ),
  );
}

function map(cluster, marks) {
  return h(
    "section",
    { class: "panel" },
    h("h2", {}, t("cluster.map")),
    h(
      "ol",
      { class: "plain partitions" },
      cluster.partitions.map(({ partition, node }) => {
        const mark = marks.get(node);
        const words = node ? t("cluster.owned", { partition, node }) : t("cluster.free", partition);
        return h(
          "li",
          { class: `partition ${mark ? `hue-${mark.hue}` : "free"}`, title: words },
          h("span", { "aria-hidden": "true" }, mark?.letter ?? "·", h("small", {}, partition)),
          h("span", { class: "unseen" }, words),
        );
      }),
    ),
  );
}

function leases(cluster) {
  return h(
    "details",
    { class: "panel" },
    h("summary", {}, t("cluster.leases")),
    tableOf(
      t("cluster.leases"),
      [t("cluster.partition"), t("cluster.node"), t("cluster.epoch"), t("cluster.expires")],
      h("tbody", {}, cluster.partitions.map(lease)),
      "figures",
    ),
  );
}

function lease({ partition, node, epoch }) {
  return h(
    "tr",
    {},
    h("th", { scope: "row" }, partition),
    h("td", { class: "name" }, node ?? "–"),
    h("td", { "data-epoch": partition }, epoch),
    h("td", { "data-lease": partition }),
  );
}

function markOf(place) {
  return { letter: String.fromCharCode(65 + (place % 26)), hue: place % HUES };
}
