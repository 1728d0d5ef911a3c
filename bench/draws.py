"""Delays and keys by chance, the same in every run."""

from __future__ import annotations

import random
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["SEED", "draw_keys", "draw_ticks", "make_keys"]

SEED = 20_240_229  # any
DRAWN_MAX = 1_000_000  # drawing ten million would take longer than most of what is timed


@lru_cache(maxsize=2)
def draw_ticks(n: int, ticks_max: int, seed: int = SEED) -> list[int]:
    """Draw delays from one tick to the longest, uniformly; beyond a million they begin again."""
    words = memoryview(random.Random(seed).randbytes(4 * min(n, DRAWN_MAX))).cast("I")
    drawn = [1 + word % ticks_max for word in words]
    return drawn if n <= DRAWN_MAX else (drawn * (n // DRAWN_MAX + 1))[:n]


def make_keys(first: int, size: int) -> list[str]:
    """Make keys that no other range of numbers gives."""
    return [f"key {number}" for number in range(first, first + size)]


def draw_keys(keys: Sequence[str], size: int) -> list[str]:
    """Draw keys with replacement, uniformly."""
    return random.Random(SEED).choices(keys, k=size)
