"""Shares are fair, they are reached whatever there was before, and nothing moves without need."""

from collections import Counter
from collections.abc import Mapping, Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickwheel.cluster.assignment import fair, to_give_back, to_take

NAMES = [f"node{number:02}" for number in range(12)]
names = st.lists(st.sampled_from(NAMES), min_size=1, max_size=8, unique=True).map(sorted)
sizes = st.integers(1, 70)
Owners = dict[int, str]


@st.composite
def beginnings(draw: st.DrawFn) -> tuple[int, list[str], Owners]:
    """Draw partitions, nodes that live, and owners: some of them dead, and some partitions free."""
    partitions = draw(sizes)
    drawn = draw(st.lists(st.sampled_from([*NAMES, None]), min_size=partitions, max_size=partitions))
    return partitions, draw(names), {number: owner for number, owner in enumerate(drawn) if owner is not None}


def settle(partitions: int, nodes: Sequence[str], owners: Mapping[int, str], chance: Random) -> tuple[Owners, int]:
    """Let nodes take rounds, in any order and by what they saw a while ago; return who owns what, and the moves."""
    now = {partition: owner for partition, owner in owners.items() if owner in nodes}  # the leases of the dead end
    moves, quiet = 0, 0
    for _ in range(50 * len(nodes)):
        node, seen = chance.choice(nodes), dict(now)
        for other in chance.sample(nodes, chance.randrange(2)):  # what happens while it thinks
            moves += step(other, partitions, nodes, dict(now), now)
        moved = step(node, partitions, nodes, seen, now)
        moves, quiet = moves + moved, 0 if moved else quiet + 1
        if quiet > 10 * len(nodes):
            break
    return now, moves


def step(node: str, partitions: int, nodes: Sequence[str], seen: Owners, now: Owners) -> int:
    """Do what a node does in a round, and return how many partitions it took."""
    held = [partition for partition, owner in seen.items() if owner == node]
    for partition in to_give_back(held, fair(partitions, nodes, seen)[node], busy=()):
        if now.get(partition) == node:
            del now[partition]
    taken = [partition for partition in to_take(node, partitions, nodes, seen) if partition not in now]
    now.update(dict.fromkeys(taken, node))
    return len(taken)


def is_fair(partitions: int, nodes: Sequence[str], owners: Mapping[int, str]) -> bool:
    has = Counter(owners.values())
    counts = [has[node] for node in nodes]
    return sum(counts) == len(owners) == partitions and max(counts) - min(counts) <= 1


@given(beginnings())
def test_shares_add_up_and_differ_by_one_at_most(beginning: tuple[int, list[str], Owners]) -> None:
    partitions, nodes, owners = beginning
    shares = fair(partitions, nodes, owners)
    assert sorted(shares) == nodes
    assert sum(shares.values()) == partitions
    assert max(shares.values()) - min(shares.values()) <= 1


@given(beginnings())
def test_every_free_partition_is_meant_for_one_node_at_most(beginning: tuple[int, list[str], Owners]) -> None:
    partitions, nodes, owners = beginning
    meant = [partition for node in nodes for partition in to_take(node, partitions, nodes, owners)]
    assert len(meant) == len(set(meant))
    assert not owners.keys() & set(meant)


@given(beginnings(), st.integers(0, 2**32))
def test_whatever_there_was_every_partition_has_one_owner_in_the_end(
    beginning: tuple[int, list[str], Owners], seed: int
) -> None:
    partitions, nodes, owners = beginning
    settled, _ = settle(partitions, nodes, owners, Random(seed))
    assert is_fair(partitions, nodes, settled)
    assert settle(partitions, nodes, settled, Random(seed)) == (settled, 0), "and then nothing moves any more"


@given(sizes, names, st.data())
def test_a_node_that_joins_gets_its_share_and_nothing_else_moves(
    partitions: int, nodes: list[str], data: st.DataObject
) -> None:
    seed = data.draw(st.integers(0, 2**32))
    before, _ = settle(partitions, nodes, {}, Random(seed))
    joining = data.draw(st.sampled_from([name for name in NAMES if name not in nodes]))
    after, moves = settle(partitions, sorted([*nodes, joining]), before, Random(seed))
    moved = [partition for partition in range(partitions) if before[partition] != after[partition]]
    assert {after[partition] for partition in moved} <= {joining}
    assert is_fair(partitions, [*nodes, joining], after)
    assert moves == len(moved)


@given(sizes, names.filter(lambda nodes: len(nodes) > 1), st.data())
def test_when_a_node_leaves_only_what_it_had_moves(partitions: int, nodes: list[str], data: st.DataObject) -> None:
    seed = data.draw(st.integers(0, 2**32))
    before, _ = settle(partitions, nodes, {}, Random(seed))
    leaving = data.draw(st.sampled_from(nodes))
    left = [node for node in nodes if node != leaving]
    after, moves = settle(partitions, left, before, Random(seed))
    moved = [partition for partition in range(partitions) if before[partition] != after[partition]]
    assert {before[partition] for partition in moved} <= {leaving}
    assert is_fair(partitions, left, after)
    assert moves == len(moved)


@pytest.mark.parametrize(("held", "share", "busy", "given_back"), [([1, 2, 3], 2, {3}, [2]), ([4, 5], 2, {4}, [])])
def test_what_is_busy_is_given_back_last(held: list[int], share: int, busy: set[int], given_back: list[int]) -> None:
    assert to_give_back(held, share, busy) == given_back
    assert to_give_back(held, 0, busy)[-1] in busy
