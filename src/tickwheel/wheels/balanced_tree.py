"""Scheme 3b, the balanced tree: one node a due tick, no branch much longer than another.

                  12                  each node is a slot: the timers due on that tick, in order;
               9      75              an AVL tree, so the two sides of a node differ
            8           80            by one level at the most

| start    | stop                           | tick                  |
|----------|--------------------------------|-----------------------|
| O(log n) | O(1), the last of a tick O(log n) | O(log n) each tick with timers |

What Linux used for its high-resolution timers, as a red-black tree. It is never wrong to use, and never
the fastest.
"""

from itertools import pairwise
from typing import cast

from mypy_extensions import i64

from tickwheel.wheels.scheme import Scheme, expect
from tickwheel.wheels.timer import STOPPED, Slot, Timer
from tickwheel.wheels.tree import Node, find, height, leftmost, list_nodes, with_node, without

__all__ = ["BalancedTree"]


class BalancedTree(Scheme):
    """Timers in a tree by due tick."""

    def __init__(self, now: object = 0) -> None:
        super().__init__(now)
        self._root: Node | None = None
        self._formed = True

    def _place(self, timer: Timer) -> None:
        self._node(timer.due).append(timer)

    def _move(self, timer: Timer, due: i64) -> None:
        node = self._node(due)  # first: there may be no memory for it
        if timer.slot is node:
            node.unlink(timer)
        else:
            self._remove(timer)
        timer.due = due
        node.append(timer)

    def _node(self, due: i64) -> Node:
        """Return the node of a tick, for a timer to be put in."""
        node = find(self._root, due)
        if node is None:
            node = Node(self._serial, due)
            self._root = with_node(self._root, node)
        return node

    def _emptied(self, slot: Slot) -> None:
        if slot is not self._ready:
            self._root = without(self._root, slot.due)
            slot.dissolve(STOPPED)

    def _turn(self, to: i64) -> bool:
        if self._root is None or leftmost(self._root).due > to:
            self._now = to
            return False
        node = leftmost(self._root)
        self._now = node.due
        self._root = without(self._root, node.due)
        self._ready.dissolve(STOPPED)
        self._ready = node
        return True

    def _earliest(self) -> i64:
        return leftmost(cast("Node", self._root)).due

    def _slots(self) -> list[Slot]:
        nodes: list[Slot] = []
        list_nodes(self._root, nodes)
        return nodes

    def check(self) -> None:
        """Raise `BrokenWheel` if the tree is not ordered and balanced."""
        super().check()
        nodes = self._slots()
        for before, after in pairwise(nodes):
            expect(before.due < after.due, f"tick {before.due} stands before {after.due}")
        for slot in nodes:
            node = cast("Node", slot)
            expect(node.count > 0, f"tick {node.due} has no timers")
            left: int = height(node.left)
            right: int = height(node.right)
            expect(node.height == 1 + max(left, right), f"tick {node.due} is not {node.height} high")
            expect(abs(left - right) <= 1, f"tick {node.due} leans over")

    def _dissolve(self) -> Timer:
        doomed = super()._dissolve()
        self._root = None
        return doomed
