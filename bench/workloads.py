"""What a subject is made to do: one table, every subject through the same lines.

A workload is given a fresh rig and a number of timers, sets up, and times one section:

    start_stop, n = 1,000:   start 1,000 timers          not timed
                             start and stop one, again   timed, up to 200,000 times
"""

from __future__ import annotations

import gc
from dataclasses import dataclass
from pathlib import Path
from random import Random
from resource import getpagesize
from typing import TYPE_CHECKING, Any

from bench.caches import evict_items, get_in_order, get_random, replace_items, set_items
from bench.draws import SEED, draw_ticks
from bench.idle import touch_keys
from bench.lap import FURTHER, Lap, in_chunks, time_ns
from bench.lateness import early, late
from bench.rigs import BATCH, KEPT_OF_BATCH, TimerRig, WheelRig
from bench.subjects import HOUR_TICKS, LEADER, THREADS, Subject
from bench.threads import start_and_cancel, start_and_cancel_on_one_core
from bench.timeouts import enter_timeouts

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["WORKLOADS", "Workload"]

FAR_TICKS = 10**15  # beyond all that idle advances over: 200,000 leaps
LEAP_TICKS = 10**9
COLLECTIONS = 3
BYTES_N_MIN = 100_000  # fewer timers than this do not fill enough pages to weigh them


@dataclass(frozen=True, slots=True)
class Workload:
    """A row of the table."""

    name: str
    says: str
    unit: str
    run: Callable[[Any, Subject, int], Lap]  # the rig is one of its families
    families: tuple[str, ...] = ("wheel", "loop", "sched")
    only: tuple[str, ...] = ()  # subjects, if not all of the families
    both_collectors: bool = True
    n_min: int = 0
    sizes: tuple[int, ...] = ()  # its own, instead of those of the run

    def applies(self, subject: Subject, n: int) -> bool:
        """Tell whether a subject can do this at all."""
        if subject.family not in self.families or n < self.n_min or (self.only and subject.name not in self.only):
            return False
        # Nothing can wait in a simple wheel beyond the range idle advances over.
        return not (self.sizes and n and subject.delay_ticks_max < HOUR_TICKS)


def _load(rig: TimerRig, subject: Subject, n: int, seed: int = SEED) -> None:
    rig.load(draw_ticks(n, subject.delay_ticks_max, seed))


def _expect_calls(rig: TimerRig, expected: int) -> None:
    if (calls := rig.calls()) != expected:
        message = f"{calls} timers fired, {expected} should have"
        raise AssertionError(message)


def _start(rig: TimerRig, subject: Subject, n: int) -> Lap:
    _load(rig, subject, n)
    return Lap(time_ns(rig.start), n)


def _start_many(rig: WheelRig, subject: Subject, n: int) -> Lap:
    _load(rig, subject, n)
    rig.load_payloads()
    return Lap(time_ns(rig.start_many), n)


def _stop(rig: TimerRig, subject: Subject, n: int) -> Lap:
    _load(rig, subject, n)
    rig.start()
    return Lap(time_ns(rig.stop), n)


def _stop_random(rig: TimerRig, subject: Subject, n: int) -> Lap:
    _load(rig, subject, n)
    rig.start()
    Random(SEED).shuffle(rig.handles)
    return Lap(time_ns(rig.stop), n)


def _start_stop(rig: TimerRig, subject: Subject, n: int) -> Lap:
    _load(rig, subject, n)
    rig.start()
    ticks = draw_ticks(FURTHER, subject.delay_ticks_max, SEED + 1)

    def chunk(first: int, size: int) -> int:
        rig.load(ticks[first : first + size])
        return time_ns(rig.start_stop)

    return in_chunks(chunk)


def _start_more(rig: TimerRig, subject: Subject, n: int) -> Lap:
    _load(rig, subject, n)
    rig.start()
    _load(rig, subject, FURTHER, SEED + 1)
    return Lap(time_ns(rig.start), FURTHER)


def _stop_some(rig: TimerRig, subject: Subject, n: int) -> Lap:
    _start_more(rig, subject, n)
    return Lap(time_ns(rig.stop), FURTHER)


def _expire(rig: TimerRig, subject: Subject, n: int) -> Lap:
    rig.prepare_expiry()
    _load(rig, subject, n)
    rig.start()
    rig.load([])  # nobody keeps the handle of a timer that is left to fire
    rig.await_due()
    lap = Lap(time_ns(rig.expire), n)
    _expect_calls(rig, n)
    return lap


def _mixed(rig: TimerRig, subject: Subject, n: int) -> Lap:
    rig.prepare_expiry()
    _load(rig, subject, n)
    churned_ns = time_ns(rig.churn)
    rig.await_due()
    lap = Lap(churned_ns + time_ns(rig.expire), n)
    whole, rest = divmod(n, BATCH)
    _expect_calls(rig, whole * KEPT_OF_BATCH + min(rest, KEPT_OF_BATCH))
    return lap


def _bytes(rig: TimerRig, subject: Subject, n: int) -> Lap:
    _load(rig, subject, n)
    before = _resident_bytes()
    rig.start_unkept()
    return Lap(_resident_bytes() - before, n)


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * getpagesize()


def _collect(rig: TimerRig, subject: Subject, n: int) -> Lap:
    _load(rig, subject, n)
    rig.start_unkept()
    gc.collect()  # the first one also clears up after the set-up
    return Lap(time_ns(lambda: [gc.collect() for _ in range(COLLECTIONS)]) / 1e6, COLLECTIONS)


def _idle(step: int) -> Callable[[WheelRig, Subject, int], Lap]:
    def run(rig: WheelRig, subject: Subject, n: int) -> Lap:
        rig.load([FAR_TICKS + tick for tick in draw_ticks(n, subject.delay_ticks_max)])
        rig.start()
        return in_chunks(lambda _, times: time_ns(lambda: rig.turn(step, times)))

    return run


_WHEEL = ("wheel",)
_TIMERS = ("wheel", "loop", "handle", "sched")
_GROWING = (LEADER,)  # the one whose growth the targets speak of; for the others start and stop tell enough
_IDLE_SIZES = (0, 1000)  # nothing pending, and some timers far beyond
_THREAD_SIZES = (0, 100)  # nothing pending, and as many as there can reasonably be threads
_LATE_SIZES = (100_000,)  # timers a second: the load the target speaks of

_ALL = (
    Workload("start", "start n timers and keep the handles", "ns per timer", _start, families=_TIMERS),
    Workload("start_many", "the same in one call", "ns per timer", _start_many, families=_WHEEL),
    Workload("stop", "stop n timers in start order", "ns per timer", _stop, families=_TIMERS),
    Workload("stop_random", "stop n timers in random order", "ns per timer", _stop_random, families=_TIMERS),
    Workload("start_stop", "start and stop a timer while n are pending", "ns per pair", _start_stop, families=_TIMERS),
    Workload(
        "start_more", "start 200,000 further timers while n are pending", "ns per timer", _start_more, only=_GROWING
    ),
    Workload("stop_some", "stop 200,000 timers while n others are pending", "ns per timer", _stop_some, only=_GROWING),
    Workload("expire", "let n timers fire", "ns per timer", _expire),
    Workload("mixed", "start n timers, stop 90 % on the way, let the rest fire", "ns per timer", _mixed),
    Workload(
        "bytes",
        "resident memory of a pending timer",
        "bytes per timer",
        _bytes,
        families=_TIMERS,
        both_collectors=False,
        n_min=BYTES_N_MIN,
    ),
    Workload(
        "collect",
        "a full garbage collection while n are pending",
        "ms",
        _collect,
        families=_TIMERS,
        both_collectors=False,
    ),
    Workload(
        "idle_tick",
        "advance by one empty tick, n timers pending far beyond",
        "ns per advance",
        _idle(1),
        families=_WHEEL,
        sizes=_IDLE_SIZES,
    ),
    Workload(
        "idle_leap",
        "advance by 10^9 empty ticks, n timers pending far beyond",
        "ns per advance",
        _idle(LEAP_TICKS),
        families=_WHEEL,
        sizes=_IDLE_SIZES,
    ),
    Workload(
        "timeout",
        "enter and leave a timeout while n are pending",
        "ns per timeout",
        enter_timeouts,
        families=("timeout",),
    ),
    Workload(
        "after_cancel",
        "start and cancel a timer from a thread while n are pending",
        "ns per pair",
        start_and_cancel,
        families=("thread",),
        sizes=_THREAD_SIZES,
    ),
    Workload(
        "after_cancel_one_core",
        "the same with all threads on one core",
        "ns per pair",
        start_and_cancel_on_one_core,
        families=("thread",),
        sizes=_THREAD_SIZES,
    ),
    Workload(
        "lateness",
        "what 99 % keep to when n timers come due every second",
        "ms",
        late,
        families=("thread",),
        only=(THREADS,),
        both_collectors=False,
        sizes=_LATE_SIZES,
    ),
    Workload(
        "early",
        "how many fire before their deadline when n come due every second",
        "timers",
        early,
        families=("thread",),
        only=(THREADS,),
        both_collectors=False,
        sizes=_LATE_SIZES,
    ),
    Workload(
        "cache_set",
        "set new keys in a cache of n items: these go by size and by expiry",
        "ns per item",
        set_items,
        families=("cache",),
        n_min=2,
    ),
    Workload("cache_get", "get items of a cache of n, in order", "ns per item", get_in_order, families=("cache",)),
    Workload("cache_get_random", "the same, by chance", "ns per item", get_random, families=("cache",)),
    Workload(
        "cache_replace", "set items of a cache of n that are there", "ns per item", replace_items, families=("cache",)
    ),
    Workload(
        "cache_evict",
        "set new keys in a full cache of n, without expiry",
        "ns per item",
        evict_items,
        families=("cache",),
    ),
    Workload("touch", "touch a key while n are watched", "ns per touch", touch_keys, families=("idle",)),
)
WORKLOADS = {workload.name: workload for workload in _ALL}
