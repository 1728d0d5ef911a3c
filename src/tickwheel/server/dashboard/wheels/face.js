// The face: one ring a dial, the fastest inside, the far store outside. Painted on a canvas, at the screen's own pace.
//
// The slots change seldom and are kept on a sheet of their own; a frame is that sheet, the hands, and what falls.

import { duration, number } from "../format.js";
import { t } from "../texts.js";
import { palette } from "../theme.js";

const HUB = 0.085; // of the radius: what the rings leave free in the middle
const RINGS_END = 0.86; // where the far store begins
const GAP = 0.16; // of a ring's breadth, between two rings
const SHEET_MS = 90; // the slots are painted anew at most this often
const TURN = 2 * Math.PI;
const UP = -Math.PI / 2;
const TRAIL_S = 0.1; // of its way a hand leaves behind as a trail

export class Face {
  constructor(canvas, motion) {
    this.canvas = canvas;
    this.motion = motion;
    this.far = 0;
    this.chosen = null; // {level, slot}
    this.pointed = null;
    this._sheet = document.createElement("canvas");
    this._sheetAt = -Infinity;
    this.recolour();
  }

  recolour() {
    this._colours = palette("ink", "soft", "line", "face", "gilt", "steel", "ruby", "track");
    this._sheetAt = -Infinity;
  }

  // Fit the canvas to its place on the page.
  fit() {
    const side = Math.round(this.canvas.clientWidth * Math.min(devicePixelRatio, 2));
    if (side === 0 || (side === this.canvas.width && side === this.canvas.height)) return;
    for (const sheet of [this.canvas, this._sheet]) {
      sheet.width = side;
      sheet.height = side;
    }
    this._sheetAt = -Infinity;
  }

  paint(nowMs) {
    const { motion, canvas } = this;
    const pen = canvas.getContext("2d");
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.clearRect(0, 0, canvas.width, canvas.height);
    if (motion.levels.length === 0) return;
    if (nowMs - this._sheetAt > SHEET_MS) {
      this._paintSheet();
      this._sheetAt = nowMs;
    }
    pen.drawImage(this._sheet, 0, 0);
    this._centre(pen);
    this._paintMarks(pen);
    this._paintDrops(pen, nowMs);
    for (let level = motion.levels.length - 1; level >= 0; level -= 1) this._paintHand(pen, level);
    motion.levels.forEach((level, index) => this._paintLabel(pen, level, index));
    this._paintHub(pen, nowMs);
  }

  // Which slot is at a place on the page; null if there is none.
  slotAt(x, y) {
    const box = this.canvas.getBoundingClientRect();
    const dx = (x - box.left) / box.width - 0.5;
    const dy = (y - box.top) / box.height - 0.5;
    const reach = Math.hypot(dx, dy) * 2;
    const angle = (Math.atan2(dy, dx) - UP + TURN) % TURN;
    for (let level = 0; level < this.motion.levels.length; level += 1) {
      const [inner, outer] = this._ring(level);
      if (reach >= inner && reach <= outer) {
        const { slots } = this.motion.levels[level];
        return { level, slot: Math.min(Math.floor((angle / TURN) * slots), slots - 1) };
      }
    }
    return null;
  }

  // Inner and outer edge of a ring, in parts of the radius.
  _ring(level) {
    const breadth = (RINGS_END - HUB) / this.motion.levels.length;
    const inner = HUB + breadth * level;
    return [inner + breadth * GAP, inner + breadth];
  }

  _centre(pen) {
    this._radius = this.canvas.width / 2;
    pen.setTransform(1, 0, 0, 1, this._radius, this._radius);
  }

  _paintSheet() {
    const pen = this._sheet.getContext("2d");
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.clearRect(0, 0, this._sheet.width, this._sheet.height);
    this._centre(pen);
    this._paintFar(pen);
    const most = Math.log1p(Math.max(1, ...this.motion.levels.flatMap((level) => level.occupancy)));
    this.motion.levels.forEach((level, index) => this._paintRing(pen, level, index, most));
  }

  // A ring; a slot is the deeper in colour the more wait in it, by the logarithm, and the fullest slot of all deepest.
  _paintRing(pen, level, index, most) {
    const [inner, outer] = this._ring(index).map((part) => part * this._radius);
    pen.fillStyle = this._colours.track;
    pen.beginPath();
    pen.arc(0, 0, outer, 0, TURN);
    pen.arc(0, 0, inner, TURN, 0, true);
    pen.fill();
    const step = TURN / level.slots;
    pen.fillStyle = this._colours.gilt;
    level.occupancy.forEach((count, slot) => {
      if (count === 0) return;
      pen.globalAlpha = 0.3 + 0.7 * (Math.log1p(count) / most);
      this._sector(pen, inner, outer, slot, step);
      pen.fill();
    });
    pen.globalAlpha = 1;
    pen.strokeStyle = this._colours.face;
    pen.lineWidth = Math.max(1, this._radius / 320);
    pen.beginPath();
    for (let slot = 0; slot < level.slots && step * outer > 3; slot += 1) {
      const angle = UP + slot * step;
      pen.moveTo(Math.cos(angle) * inner, Math.sin(angle) * inner);
      pen.lineTo(Math.cos(angle) * outer, Math.sin(angle) * outer);
    }
    pen.stroke();
  }

  _sector(pen, inner, outer, slot, step) {
    const from = UP + slot * step;
    pen.beginPath();
    pen.arc(0, 0, outer, from, from + step);
    pen.arc(0, 0, inner, from + step, from, true);
    pen.closePath();
  }

  // How long a slot is, at six o'clock on its ring: slow hands begin at twelve and stay there for long.
  _paintLabel(pen, level, index) {
    const [inner, outer] = this._ring(index).map((part) => part * this._radius);
    const size = Math.max(9 * (this._radius / this.canvas.clientWidth) * 2, (outer - inner) * 0.3);
    pen.font = `${size}px ui-sans-serif, system-ui, sans-serif`;
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    const text = duration(level.slot_seconds);
    const width = pen.measureText(text).width + size * 0.9;
    const y = (inner + outer) / 2;
    pen.fillStyle = this._colours.face;
    pen.beginPath();
    pen.roundRect(-width / 2, y - size * 0.8, width, size * 1.6, size * 0.8);
    pen.fill();
    pen.fillStyle = this._colours.ink;
    pen.fillText(text, 0, y + size * 0.06);
  }

  // The far store: a bezel of dots, the more the more tasks are there.
  _paintFar(pen) {
    const radius = this._radius;
    pen.strokeStyle = this._colours.line;
    pen.lineWidth = Math.max(1, radius / 320);
    for (const edge of [RINGS_END + 0.022, 0.985]) {
      pen.beginPath();
      pen.arc(0, 0, edge * radius, 0, TURN);
      pen.stroke();
    }
    const dots = this.far === 0 ? 0 : Math.min(Math.round(12 * Math.log2(this.far + 1)), 240);
    pen.fillStyle = this._colours.soft;
    for (let dot = 0; dot < dots; dot += 1) {
      const angle = UP + (dot / dots) * TURN;
      const reach = (0.905 + 0.035 * (dot % 3 === 0 ? 1 : dot % 3 === 1 ? 0 : 0.5)) * radius;
      pen.beginPath();
      pen.arc(Math.cos(angle) * reach, Math.sin(angle) * reach, radius / 190, 0, TURN);
      pen.fill();
    }
    const size = Math.max(9 * (radius / this.canvas.clientWidth) * 2, radius * 0.03);
    pen.font = `${size}px ui-sans-serif, system-ui, sans-serif`;
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    const text = t("wheels.far-label", number(this.far));
    const width = pen.measureText(text).width + size * 1.4;
    pen.fillStyle = this._colours.face;
    pen.beginPath();
    pen.roundRect(-width / 2, -0.934 * radius - size * 0.8, width, size * 1.6, size * 0.8);
    pen.fill();
    pen.fillStyle = this._colours.soft;
    pen.fillText(text, 0, -0.932 * radius);
  }

  _paintMarks(pen) {
    for (const [mark, colour] of [[this.pointed, this._colours.steel], [this.chosen, this._colours.ruby]]) {
      const level = mark && this.motion.levels[mark.level];
      if (!level) continue;
      const [inner, outer] = this._ring(mark.level).map((part) => part * this._radius);
      this._sector(pen, inner, outer, mark.slot, TURN / level.slots);
      pen.strokeStyle = colour;
      pen.lineWidth = Math.max(2, this._radius / 120);
      pen.stroke();
    }
  }

  _paintDrops(pen, nowMs) {
    pen.fillStyle = this._colours.gilt;
    const size = this._radius / 105;
    for (const drop of this.motion.drops) {
      const way = Math.min((nowMs - drop.since) / (drop.until - drop.since), 1) ** 1.7;
      const [inner, outer] = this._ring(drop.number);
      const from = (inner + outer) / 2;
      const to = drop.number === 0 ? 0 : (this._ring(drop.number - 1)[0] + this._ring(drop.number - 1)[1]) / 2;
      const reach = (from + (to - from) * way) * this._radius;
      const angle = UP + TURN * (drop.from + (drop.to - drop.from) * way);
      pen.globalAlpha = 1 - 0.5 * way;
      pen.beginPath();
      pen.arc(Math.cos(angle) * reach, Math.sin(angle) * reach, size, 0, TURN);
      pen.fill();
    }
    pen.globalAlpha = 1;
  }

  // A stem from the hub, a lance in its ring, and behind it a trail, so that the fastest hands are a shimmer.
  _paintHand(pen, level) {
    const { motion } = this;
    const { slots } = motion.levels[level];
    const [inner, outer] = this._ring(level).map((part) => part * this._radius);
    const angle = UP + (motion.hand(level) / slots) * TURN;
    const trail = Math.min((motion.pace(level) / slots) * TURN * TRAIL_S, TURN);
    pen.strokeStyle = this._colours.steel;
    pen.fillStyle = this._colours.steel;
    if (trail > 0.05) {
      const parts = 14;
      pen.lineWidth = (outer - inner) * 0.9;
      for (let part = 0; part < parts; part += 1) {
        pen.globalAlpha = 0.16 * (1 - part / parts);
        pen.beginPath();
        pen.arc(0, 0, (inner + outer) / 2, angle - (trail * (part + 1)) / parts, angle - (trail * part) / parts);
        pen.stroke();
      }
      pen.globalAlpha = 1;
    }
    if (trail >= TURN / 2) return;
    pen.save();
    pen.rotate(angle);
    pen.globalAlpha = 0.5;
    pen.lineWidth = Math.max(1, this._radius / 300);
    pen.beginPath();
    pen.moveTo(HUB * this._radius * 0.5, 0);
    pen.lineTo(inner, 0);
    pen.stroke();
    pen.globalAlpha = 1;
    const half = Math.max(2, this._radius / 75);
    pen.beginPath();
    pen.moveTo(inner - half, 0);
    pen.lineTo(inner + (outer - inner) * 0.25, half);
    pen.lineTo(outer + half * 0.4, 0);
    pen.lineTo(inner + (outer - inner) * 0.25, -half);
    pen.closePath();
    pen.fill();
    pen.restore();
  }

  _paintHub(pen, nowMs) {
    const glow = Math.max(0, 1 - (nowMs / 1000 - this.motion.fired) / 0.4);
    const radius = HUB * this._radius * 0.62;
    pen.fillStyle = this._colours.gilt;
    if (glow > 0) {
      pen.globalAlpha = 0.35 * glow;
      pen.beginPath();
      pen.arc(0, 0, radius * (1 + 0.9 * glow), 0, TURN);
      pen.fill();
      pen.globalAlpha = 1;
    }
    pen.beginPath();
    pen.arc(0, 0, radius, 0, TURN);
    pen.fill();
    pen.fillStyle = this._colours.ruby;
    pen.beginPath();
    pen.arc(0, 0, radius * 0.42, 0, TURN);
    pen.fill();
  }
}
