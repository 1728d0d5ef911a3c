"""How many partitions each node shall have, and which ones move when nodes come and go.

    a is alone      a a a a a a a       b joins: a gives three back, b takes them
    a, b            a a a a b b b       c joins: a and b give back one each, c takes them
    a, b, c         a a a c b b c       a leaves: b and c take what a had
    b, c            b b c c b b c

Every node works this out by itself, from the same list of nodes and owners, and comes to the same answer: each free
partition is meant for one of them. Where their lists differ for a moment, the store gives a partition to one of them
all the same, and the next round mends the rest.

>>> owners = dict.fromkeys(range(7), "a")
>>> fair(7, ["a", "b"], owners)
{'a': 4, 'b': 3}
>>> to_give_back([0, 1, 2, 3, 4, 5, 6], 4, busy={6})
[5, 4, 3]
>>> owners = {0: "a", 1: "a", 2: "a", 6: "a"}
>>> to_take("b", 7, ["a", "b"], owners)
[3, 4, 5]
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

__all__ = ["fair", "to_give_back", "to_take"]


def fair(partitions: int, nodes: Sequence[str], owners: Mapping[int, str]) -> dict[str, int]:
    """Return how many partitions each node shall have: as many as any other, or one more.

    One more is for those that have it already, so that nothing moves without need.
    """
    least, over = divmod(partitions, len(nodes))
    has = Counter(owners.values())
    ranked = sorted(nodes, key=lambda node: (has[node] <= least, node))
    return {node: least + (rank < over) for rank, node in enumerate(ranked)}


def to_take(node: str, partitions: int, nodes: Sequence[str], owners: Mapping[int, str]) -> list[int]:
    """Return the free partitions that are meant for a node: the first node takes the first of them, and so on."""
    shares = fair(partitions, nodes, owners)
    has = Counter(owners.values())
    free = [partition for partition in range(partitions) if partition not in owners]
    first = sum(max(shares[other] - has[other], 0) for other in nodes if other < node)
    return free[first : first + max(shares[node] - has[node], 0)]


def to_give_back(held: Collection[int], share: int, busy: Collection[int]) -> list[int]:
    """Return what a node holds beyond its share: first what nothing is going on in, for that can go at once."""
    ranked = sorted(held, key=lambda partition: (partition in busy, -partition))
    return ranked[: max(len(held) - share, 0)]
