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

from mypy_extensions import i64, mypyc_attr

from tickwheel.wheels.scheme import Scheme, expect
from tickwheel.wheels.timer import Slot, Timer

__all__ = ["BalancedTree"]


@mypyc_attr(acyclic=True)
class Node(Slot):
    """The timers due on one tick (`due`), and the nodes before and after."""

    __slots__ = ("height", "left", "right")

    def __init__(self, owner: i64, due: i64) -> None:
        super().__init__(owner, 0)
        self.due = due
        self.height: i64 = 1
        self.left: Node | None = None
        self.right: Node | None = None


class BalancedTree(Scheme):
    """Timers in a tree by due tick."""

    def __init__(self, now: object = 0) -> None:
        super().__init__(now)
        self._root: Node | None = None

    def _place(self, timer: Timer) -> None:
        node = self._root
        while node is not None and node.due != timer.due:
            node = node.left if timer.due < node.due else node.right
        if node is None:
            node = Node(self._serial, timer.due)
            self._root = with_node(self._root, node)
        node.append(timer)

    def _emptied(self, slot: Slot) -> None:
        if slot is not self._ready:
            self._root = without(self._root, slot.due)
            slot.dissolve()

    def _turn(self, to: i64) -> bool:
        if self._root is None or leftmost(self._root).due > to:
            self._now = to
            return False
        node = leftmost(self._root)
        self._now = node.due
        self._root = without(self._root, node.due)
        self._ready.dissolve()
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

    def _dissolve(self) -> None:
        super()._dissolve()
        self._root = None


def height(node: Node | None) -> i64:
    """Return how many levels a branch has."""
    return 0 if node is None else node.height


def leftmost(node: Node) -> Node:
    """Return the earliest node of a branch."""
    while node.left is not None:
        node = node.left
    return node


def list_nodes(node: Node | None, nodes: list[Slot]) -> None:
    """Append the nodes of a branch in order."""
    if node is not None:
        list_nodes(node.left, nodes)
        nodes.append(node)
        list_nodes(node.right, nodes)


def with_node(branch: Node | None, node: Node) -> Node:
    """Return a branch with a node of a new tick put in."""
    if branch is None:
        return node
    if node.due < branch.due:
        branch.left = with_node(branch.left, node)
    else:
        branch.right = with_node(branch.right, node)
    return balanced(branch)


def without(branch: Node | None, due: i64) -> Node | None:
    """Return a branch with the node of a tick taken out."""
    if branch is None:
        return None
    if due < branch.due:
        branch.left = without(branch.left, due)
    elif due > branch.due:
        branch.right = without(branch.right, due)
    else:
        left = branch.left
        right = branch.right
        branch.left = None
        branch.right = None
        if left is None or right is None:
            return right if left is None else left
        heir = leftmost(right)
        right = without(right, heir.due)
        heir.left = left
        heir.right = right
        branch = heir
    return balanced(branch)


def balanced(node: Node) -> Node:
    """Return a branch whose two sides differ by one level at the most, by turning it if they do not."""
    left = node.left
    right = node.right
    if left is not None and left.height > height(right) + 1:
        if height(left.right) > height(left.left):
            node.left = turned_left(left)
        return turned_right(node)
    if right is not None and right.height > height(left) + 1:
        if height(right.left) > height(right.right):
            node.right = turned_right(right)
        return turned_left(node)
    node.height = 1 + max(height(left), height(right))
    return node


def turned_right(node: Node) -> Node:
    """Let the left child take its parent's place."""
    top = cast("Node", node.left)
    node.left = top.right
    node.height = 1 + max(height(node.left), height(node.right))
    top.right = node
    top.height = 1 + max(height(top.left), height(top.right))
    return top


def turned_left(node: Node) -> Node:
    """Let the right child take its parent's place."""
    top = cast("Node", node.right)
    node.right = top.left
    node.height = 1 + max(height(node.left), height(node.right))
    top.left = node
    top.height = 1 + max(height(top.left), height(top.right))
    return top
