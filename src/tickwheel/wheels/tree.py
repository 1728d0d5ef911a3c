"""A balanced tree of slots, each with a key of its own: found, put in and taken out in O(log n).

                  12                  an AVL tree: what is before a node is on its left,
               9      75              what is behind it on its right, and the two sides
            8           80            differ by one level at the most

The balanced tree has one for each due tick, the hierarchical wheel one for each turn beyond its last dial.
"""

from typing import cast

from mypy_extensions import i64, mypyc_attr

from tickwheel.wheels.timer import Slot

__all__ = ["Node", "find", "height", "leftmost", "list_nodes", "with_node", "without"]


@mypyc_attr(acyclic=True)
class Node(Slot):
    """A slot with a key (`due`), and the nodes before and after."""

    __slots__ = ("height", "left", "right")

    def __init__(self, owner: i64, due: i64, level: i64 = 0, index: i64 = 0) -> None:
        super().__init__(owner, level, index)
        self.due = due
        self.height: i64 = 1
        self.left: Node | None = None
        self.right: Node | None = None


def height(node: Node | None) -> i64:
    """Return how many levels a branch has."""
    return 0 if node is None else node.height


def find(branch: Node | None, due: i64) -> Node | None:
    """Return the node of a key; None if there is none."""
    while branch is not None and branch.due != due:
        branch = branch.left if due < branch.due else branch.right
    return branch


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
    """Return a branch with a node of a new key put in."""
    if branch is None:
        return node
    if node.due < branch.due:
        branch.left = with_node(branch.left, node)
    else:
        branch.right = with_node(branch.right, node)
    return balanced(branch)


def without(branch: Node | None, due: i64) -> Node | None:
    """Return a branch with the node of a key taken out."""
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
