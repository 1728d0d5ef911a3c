"""What is measured: every scheme of tickwheel, what stands on them, and what Python offers without it.

>>> SUBJECTS["asyncio"].family
'loop'
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.caches import CacheRig, LockedDict
from bench.idle import IdleRig
from bench.loops import EventLoopRig, HandleRig, LoopRig, UvloopRig
from bench.rigs import Rig, SchedRig, WheelRig
from bench.threads import ThreadTimerRig, TimersRig
from bench.timeouts import TimeoutRig
from tickwheel import AsyncTimers, Timers, TTLCache, aio, wheels

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "ASYNC_HANDLES",
    "CACHE",
    "HANDLES",
    "IDLE",
    "LEADER",
    "LEADERS",
    "LOCKED_DICT",
    "LOOP",
    "PURE",
    "SUBJECTS",
    "THREADS",
    "TIMEOUT",
    "TIMEOUT_ON_LOOP",
    "Subject",
]

DIAL_SLOTS = 65_536  # the largest dial there is (SLOTS_MAX of tickwheel.wheels.geometry)
HOUR_TICKS = 360_000  # the longest delay, in ticks of 10 ms

LEADER = "HierarchicalWheel"  # all timer modules are compared with it
PURE = "HierarchicalWheel (pure)"
LOOP = "EventLoop"
TIMEOUT, TIMEOUT_ON_LOOP = "aio.timeout", "aio.timeout on EventLoop"
THREADS = "Timers"
HANDLES, ASYNC_HANDLES = "Timers.after", "AsyncTimers.after"
CACHE, LOCKED_DICT = "TTLCache", "OrderedDict and a lock"
IDLE = "IdleTimeouts"

# Whom the subjects of a family are compared with.
LEADERS = {
    "wheel": LEADER,
    "loop": LEADER,
    "handle": LEADER,
    "sched": LEADER,
    "timeout": TIMEOUT,
    "thread": THREADS,
    "cache": CACHE,
    "idle": IDLE,
}


@dataclass(frozen=True, slots=True)
class Subject:
    """What is under test."""

    name: str
    family: str  # of LEADERS: the subjects of one do the same workloads
    make: Callable[[], Rig]
    n_max: int = 100_000  # beyond this only what the targets speak of: a full run is to end within minutes
    delay_ticks_max: int = HOUR_TICKS
    pure: bool = False  # runs the wheels interpreted
    ours: bool = True  # part of tickwheel, not what there is without it
    note: str = ""


def _uvloop() -> Rig:
    import uvloop  # noqa: PLC0415 - only one subject needs it

    return UvloopRig(uvloop.new_event_loop())


def _cachetools() -> Rig:
    import cachetools  # noqa: PLC0415 - only one subject needs it

    return CacheRig(cachetools.TTLCache[str, str])


def _async_handles() -> Rig:
    loop = asyncio.SelectorEventLoop()
    return HandleRig(AsyncTimers(loop), loop)


def _aio_timeout(loop: asyncio.AbstractEventLoop) -> Rig:
    return TimeoutRig(loop, aio.timeout)


_ALL = (
    Subject(LEADER, "wheel", lambda: WheelRig(wheels.HierarchicalWheel()), n_max=10_000_000),
    Subject(
        PURE,
        "wheel",
        lambda: WheelRig(wheels.HierarchicalWheel()),
        pure=True,
        note="the same file, interpreted (TICKWHEEL_PURE=1)",
    ),
    Subject("HashedWheel", "wheel", lambda: WheelRig(wheels.HashedWheel(DIAL_SLOTS)), note="65,536 slots"),
    Subject("SortedHashedWheel", "wheel", lambda: WheelRig(wheels.SortedHashedWheel(DIAL_SLOTS)), note="65,536 slots"),
    Subject(
        "SimpleWheel",
        "wheel",
        lambda: WheelRig(wheels.SimpleWheel(DIAL_SLOTS)),
        delay_ticks_max=DIAL_SLOTS,
        note="65,536 slots, so its delays end at 65,536 ticks (11 minutes) instead of an hour",
    ),
    Subject("BinaryHeap", "wheel", lambda: WheelRig(wheels.BinaryHeap())),
    Subject("BalancedTree", "wheel", lambda: WheelRig(wheels.BalancedTree())),
    Subject("OrderedList", "wheel", lambda: WheelRig(wheels.OrderedList())),
    Subject("UnorderedList", "wheel", lambda: WheelRig(wheels.UnorderedList())),
    Subject(LOOP, "loop", EventLoopRig, n_max=1_000_000, note="call_later and cancel; a virtual clock to expire"),
    Subject(
        "asyncio",
        "loop",
        lambda: LoopRig(asyncio.SelectorEventLoop()),
        n_max=1_000_000,
        ours=False,
        note="call_later and cancel; a replaced clock to expire",
    ),
    Subject(
        "uvloop",
        "loop",
        _uvloop,
        n_max=1_000_000,
        ours=False,
        note="call_later and cancel; its clock cannot be replaced, so in expire and mixed all delays are 1 ms",
    ),
    Subject(
        HANDLES,
        "handle",
        lambda: HandleRig(Timers().start()),
        n_max=1_000_000,
        note="after and cancel, while its thread runs",
    ),
    Subject(
        ASYNC_HANDLES,
        "handle",
        _async_handles,
        n_max=1_000_000,
        note="after and cancel, on asyncio's loop",
    ),
    Subject("sched", "sched", SchedRig, ours=False, note="enter and cancel"),
    Subject(TIMEOUT, "timeout", lambda: _aio_timeout(asyncio.SelectorEventLoop()), n_max=10_000),
    Subject(TIMEOUT_ON_LOOP, "timeout", lambda: _aio_timeout(aio.EventLoop()), n_max=10_000),
    Subject(
        "asyncio.timeout",
        "timeout",
        lambda: TimeoutRig(asyncio.SelectorEventLoop(), asyncio.timeout),
        n_max=10_000,
        ours=False,
    ),
    Subject(THREADS, "thread", TimersRig, note="after and cancel, while its thread runs"),
    Subject(
        "threading.Timer",
        "thread",
        ThreadTimerRig,
        ours=False,
        note="made, started and cancelled; waiting for its thread to end is not timed",
    ),
    Subject(CACHE, "cache", lambda: CacheRig(TTLCache[str, str]), note="safe from any thread: takes a lock to write"),
    Subject("cachetools.TTLCache", "cache", _cachetools, ours=False, note="not safe from threads: takes no lock"),
    Subject(
        LOCKED_DICT, "cache", lambda: CacheRig(LockedDict), ours=False, note="a dozen lines; frees nothing that expires"
    ),
    Subject(IDLE, "idle", IdleRig, note="on Timers, while its thread runs"),
)
SUBJECTS = {subject.name: subject for subject in _ALL}
