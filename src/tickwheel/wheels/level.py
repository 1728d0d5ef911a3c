"""One dial of the hierarchical wheel, and what lies beyond the last.

A dial always shows one turn, from `base` up to `end`, the turn the hand is in. So a due tick
belongs on the dial if it is below `end` and not on a dial below, and its slot is a subtraction and a
division away:

    60 slots of 1 min, base 00:00, end 01:00          due 00:17:25 -> slot 17
                                                      due 01:02:00 -> not on this dial yet

Slots are made when first used, and a dial notes in a bitmap which of them hold timers.

Beyond the last dial there is one more, without end: its slots are whole turns of the last dial. A balanced
tree keeps those that hold timers, so that no single start, stop or step of the hand takes long however
many there are: a dict would be rebuilt now and then, and so would a heap with turns emptied by stops.
"""

from typing import Final

from mypy_extensions import i64

from tickwheel.wheels.bitmap import Bitmap
from tickwheel.wheels.timer import STOPPED, TICK_MAX, Slot
from tickwheel.wheels.tree import Node, find, leftmost, list_nodes, with_node, without

__all__ = ["CLOSED", "OVERFLOW", "Level", "Overflow"]

OVERFLOW: Final = -2  # the level of slots beyond the last dial; -1 is in no level

CLOSED: Final = TICK_MAX + 1  # where a dial begins that takes no timers from a start: no due tick is as late


class Level:
    """A dial."""

    def __init__(self, owner: i64, number: i64, tick: i64, slots: i64, now: i64, begin: i64) -> None:
        self.owner = owner
        self.number = number
        self.tick = tick
        self.span: i64 = tick * slots
        self.scale, self.shift = reciprocal(tick, self.span)
        self.begin = begin  # the end of the dial below: what is due before that belongs there; or CLOSED
        self.base: i64 = now // self.span * self.span
        self.end: i64 = self.base + self.span
        self.slots: list[Slot | None] = [None] * int(slots)
        self.occupied = Bitmap(slots)

    def slot(self, tick: i64) -> Slot:
        """Return the slot of a tick of the turn on show, for a timer to be put in."""
        index = self.index(tick)
        slot = self.slots[index]
        if slot is None:
            slot = Slot(self.owner, self.number, index)
            self.slots[index] = slot
        if slot.count == 0:
            self.occupied.set(index)
        return slot

    def index(self, tick: i64) -> i64:
        """Return the slot of a tick of the turn on show."""
        passed = tick - self.base
        if self.scale != 0:
            return passed * self.scale >> self.shift
        return passed // self.tick

    def show(self, tick: i64) -> None:
        """Turn an empty dial to the turn that a tick is in."""
        self.base = tick // self.span * self.span
        self.end = self.base + self.span

    def next_start(self, tick: i64) -> i64:
        """Return the tick at which the first occupied slot at or behind a tick begins; -1 if none does."""
        index = self.occupied.next(self.index(tick))
        if index < 0:
            return -1
        return self.base + index * self.tick

    def occupant(self, tick: i64) -> Slot | None:
        """Return the slot of a tick of the turn on show as it is; None if it was never used."""
        return self.slots[self.index(tick)]

    def swap(self, tick: i64, empty: Slot) -> Slot:
        """Take out the slot of a tick whole, leaving an empty one in its place."""
        index = self.index(tick)
        slot = self.slots[index]
        assert slot is not None
        self.occupied.clear(index)
        self.slots[index] = empty
        empty.level = self.number
        empty.index = index
        slot.level = -1
        return slot


class Overflow:
    """The timers due in later turns of the last dial."""

    def __init__(self, owner: i64, span: i64) -> None:
        self.owner = owner
        self.span = span
        self.root: Node | None = None

    def slot(self, tick: i64) -> Slot:
        """Return the slot of a tick beyond the last dial, for a timer to be put in."""
        turn = tick // self.span
        node = find(self.root, turn * self.span)
        if node is None:
            node = Node(self.owner, turn * self.span, OVERFLOW, turn)
            self.root = with_node(self.root, node)
        return node

    def turn(self, tick: i64) -> Slot | None:
        """Return the slot of the turn that begins at a tick; None if no timer is due in it."""
        return find(self.root, tick)

    def first(self) -> Slot | None:
        """Return the slot of the first turn with timers, whose `due` is the tick it begins at."""
        return None if self.root is None else leftmost(self.root)

    def drop(self, slot: Slot) -> None:
        """Forget a turn whose last timer was removed."""
        self.root = without(self.root, slot.due)
        slot.dissolve(STOPPED)

    def turns(self) -> list[Slot]:
        """List the slots of all turns with timers, in order."""
        slots: list[Slot] = []
        list_nodes(self.root, slots)
        return slots


def reciprocal(tick: int, span: int) -> tuple[i64, i64]:
    """Return a scale and a shift with `n * scale >> shift == n // tick` for every n up to a span.

    Dividing takes the processor longer than all the rest of finding a slot, so it is done the way compilers
    divide by constants: 2**shift / tick, rounded up, is off by less than one part in 2**shift / tick, which
    does not show if 2**shift is larger than tick * span. For a power of two the scale is 1 and nothing is
    rounded. Where the product could overflow, the scale is 0: divide.
    """
    if tick & (tick - 1) == 0:
        return 1, tick.bit_length() - 1
    shift = (tick * span).bit_length()
    scale = (1 << shift) // tick + 1
    return (scale, shift) if span * scale < 1 << 63 else (0, 0)
