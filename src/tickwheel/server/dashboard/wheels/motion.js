// Where the hands are between two looks at the server, and what falls meanwhile.
//
// All hands follow from one number, the time the wheel has run (as far as its slowest dial can tell):
//
//     dial 1, slots of 1 s       hand 5   --.
//     dial 0, slots of 1 ms      hand 337 ---+-->  5 * 1 s + 337 * 1 ms = 5.337 s
//
// A wheel with nothing to do is not turned until it has; the time it tells is then old, never ahead. So of all looks
// the one that makes the wheel furthest along is believed, until the server begins anew.

const DROPS_MAX = 240; // at once, on the face; a thousand more would not be seen apart
const FALL_MS = 650;

export class Motion {
  constructor() {
    this.levels = [];
    this.drops = [];
    this.fired = 0; // when something last fell off the fastest dial
    this._ahead = null; // the time of the wheel minus that of the browser, in seconds
    this._last = null;
  }

  // Take a look from the server, seen at a time of the browser (seconds).
  look(levels, at) {
    this.levels = levels.map((level) => ({ ...level, occupancy: [...level.occupancy] }));
    const ahead = told(levels) - at;
    this._ahead = this._ahead === null ? ahead : Math.max(this._ahead, ahead);
  }

  // Forget what was believed: the server began anew.
  forget() {
    this._ahead = null;
    this._last = null;
    this.drops = [];
  }

  // Move to a time of the browser (seconds): the slots the hands reach are emptied, and what was in them falls.
  move(at, falling) {
    if (this._ahead === null) return;
    const time = at + this._ahead;
    const last = this._last ?? time;
    this._last = time;
    if (time > last) {
      for (let number = this.levels.length - 1; number >= 0; number -= 1) this._reach(number, last, time, at, falling);
    }
    this.drops = this.drops.filter((drop) => at * 1000 < drop.until);
  }

  // Where a hand is, in slots.
  hand(number) {
    const level = this.levels[number];
    return this._last === null ? level.hand : (this._last / level.slot_seconds) % level.slots;
  }

  // How many slots a hand passes in a second.
  pace(number) {
    return 1 / this.levels[number].slot_seconds;
  }

  _reach(number, last, time, at, falling) {
    const level = this.levels[number];
    const from = Math.floor(last / level.slot_seconds);
    const to = Math.floor(time / level.slot_seconds);
    for (let turn = Math.max(from + 1, to - level.slots); turn <= to; turn += 1) {
      const slot = turn % level.slots;
      const count = level.occupancy[slot];
      if (!count) continue;
      level.occupancy[slot] = 0;
      if (falling) this._fall(number, slot, count, at * 1000);
      if (number === 0) this.fired = at;
      else strew(this.levels[number - 1].occupancy, count);
    }
  }

  _fall(number, slot, count, nowMs) {
    const takes = Math.min(FALL_MS, Math.max(120, this.levels[number].slot_seconds * 1500));
    const level = this.levels[number];
    const wanted = Math.min(2 + Math.ceil(Math.log2(count + 1)), 12);
    for (let made = 0; made < wanted && this.drops.length < DROPS_MAX; made += 1) {
      const turn = (slot + 0.5) / level.slots;
      const aside = number === 0 ? 0 : (Math.random() - 0.5) * 0.16;
      const until = nowMs + takes * (0.7 + Math.random() * 0.3);
      this.drops.push({ number, from: turn, to: turn + aside, since: nowMs, until });
    }
  }
}

// The time a wheel tells by its hands, in seconds.
function told(levels) {
  return levels.reduce((time, level) => level.hand * level.slot_seconds + (time % level.slot_seconds), 0);
}

// What falls from one slot is strewn over the dial below until the server says where it really is.
function strew(occupancy, count) {
  const each = Math.max(1, Math.round(count / occupancy.length));
  for (let left = count; left > 0; left -= each) {
    occupancy[Math.floor(Math.random() * occupancy.length)] += Math.min(each, left);
  }
}
