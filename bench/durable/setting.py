"""Where a sample is taken, and of how much."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

__all__ = ["DAYS_AHEAD", "Figures", "Setting"]

DAYS_AHEAD = 30  # of what is far: nothing of it comes due while it is measured

Figures = dict[str, float]  # by what they say, with the unit last


@dataclass(frozen=True, slots=True)
class Setting:
    """What a sample is told."""

    folder: Path  # on a disk; empty, but for samples that share a filled file
    n: int  # tasks, or tasks a second
    turn: int = 0  # how many samples of the same kind were taken before
    url: str = ""  # of the store; a file in the folder, if there is none
    began_ns: int = 0  # when its process was started, by the monotonic clock, which is the same in all of them
