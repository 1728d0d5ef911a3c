"""A timed section: what it took altogether, and how many operations that was for."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter_ns
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["FURTHER", "Lap", "in_chunks", "time_ns"]

FURTHER = 200_000  # operations timed while n are pending
CHUNKS_NS_MAX = 200_000_000  # a slow subject does fewer of them: it stops after 0.2 s


@dataclass(frozen=True, slots=True)
class Lap:
    """One timed section."""

    total: float
    operations: int


def time_ns(section: Callable[[], object]) -> int:
    """Run a section and return how long it took."""
    began = perf_counter_ns()
    section()
    return perf_counter_ns() - began


def in_chunks(chunk: Callable[[int, int], int]) -> Lap:
    """Time ever larger chunks until there were enough operations, or enough time was spent.

    A chunk is given where it begins and how many operations it is, and returns how long it took.
    """
    done, elapsed_ns, size = 0, 0, 10
    while done < FURTHER and elapsed_ns < CHUNKS_NS_MAX:
        size = min(size, FURTHER - done)
        elapsed_ns += chunk(done, size)
        done += size
        size *= 2
    return Lap(elapsed_ns, done)
