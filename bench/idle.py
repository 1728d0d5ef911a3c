"""What it costs to say that a connection is not idle: `touch`, on every packet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.draws import draw_keys, make_keys
from bench.lap import FURTHER, Lap, in_chunks, time_ns
from tickwheel import IdleTimeouts, Timers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.subjects import Subject

__all__ = ["IdleRig", "touch_keys"]

TIMEOUT_SECONDS = 60.0  # nothing is idle for so long while anything is timed
WARM_UP_KEYS = 100


class IdleRig:
    """Idle timeouts on timers that a thread turns."""

    def __init__(self) -> None:
        self.timers = Timers().start()
        self.timeouts: IdleTimeouts[str] = IdleTimeouts(self.timers)

    def warm_up(self) -> None:
        """Touch a few keys."""
        keys = make_keys(0, WARM_UP_KEYS)
        self.watch(keys)
        self.touch(keys)

    def watch(self, keys: Sequence[str]) -> None:
        """Watch every key."""
        for key in keys:
            self.timeouts.watch(key, TIMEOUT_SECONDS, bool)

    def touch(self, keys: Sequence[str]) -> None:
        """Touch every key."""
        touch = self.timeouts.touch
        for key in keys:
            touch(key)

    def close(self) -> None:
        """Stop the timers."""
        self.timers.stop()


def touch_keys(rig: IdleRig, _subject: Subject, n: int) -> Lap:
    """Touch keys by chance while n are watched."""
    keys = make_keys(0, n)
    rig.watch(keys)
    drawn = draw_keys(keys, FURTHER)

    def chunk(first: int, size: int) -> int:
        touched = drawn[first : first + size]
        return time_ns(lambda: rig.touch(touched))

    lap = in_chunks(chunk)
    assert all(map(rig.timeouts.touch, keys)), "a key is watched no longer"
    return lap
