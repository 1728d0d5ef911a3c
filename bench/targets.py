"""What the project promises, and whether this run bears it out.

A target divides one median by another and holds the result against a bound:

    start, 1,000,000 timers:   asyncio 1,400 ns / HierarchicalWheel 90 ns = 15.6, at least 12: met
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.measure import Cell
from bench.subjects import (
    ASYNC_HANDLES,
    CACHE,
    HANDLES,
    IDLE,
    LEADER,
    LOCKED_DICT,
    LOOP,
    PURE,
    THREADS,
    TIMEOUT,
    TIMEOUT_ON_LOOP,
)
from bench.verdict import Verdict
from bench.workloads import WORKLOADS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["TARGETS", "Target", "judge", "needed_cells"]

THOUSAND, TEN_THOUSAND, HUNDRED_THOUSAND, MILLION, TEN_MILLION = 1000, 10_000, 100_000, 1_000_000, 10_000_000
PURE_N = HUNDRED_THOUSAND  # enough to show it; the interpreted wheel takes a second for ten times as many


@dataclass(frozen=True, slots=True)
class Target:
    """A promise: `over` divided by `under` (or `over` alone) keeps to a bound."""

    promise: str
    over: Cell
    under: Cell | None
    relation: str  # ">=", ">" or "<="
    bound: float

    def holds(self, value: float) -> bool:
        """Hold a value against the bound."""
        if self.relation == "<=":
            return value <= self.bound
        return value > self.bound if self.relation == ">" else value >= self.bound


def _faster(workload: str, other: str, n: int, bound: float, *, relation: str = ">=", subject: str = LEADER) -> Target:
    promise = f"{subject}: {workload}, n = {n:,}, times as fast as {other}"
    return Target(promise, Cell(workload, other, n), Cell(workload, subject, n), relation, bound)


def _flat(workload: str, bound: float) -> Target:
    promise = f"{workload}: n = {TEN_MILLION:,} against n = {THOUSAND:,}"
    return Target(promise, Cell(workload, LEADER, TEN_MILLION), Cell(workload, LEADER, THOUSAND), "<=", bound)


def _handle(subject: str) -> tuple[Target, ...]:
    of = f"{subject}, n = {MILLION:,}"
    return (
        Target(
            f"{of}: start_stop against {LOOP}",
            Cell("start_stop", subject, MILLION),
            Cell("start_stop", LOOP, MILLION),
            "<=",
            1.2,
        ),
        Target(f"{of}: bytes a pending timer takes", Cell("bytes", subject, MILLION), None, "<=", 140),
        Target(
            f"{of}: collect against {LEADER}",
            Cell("collect", subject, MILLION),
            Cell("collect", LEADER, MILLION),
            "<=",
            2,
        ),
    )


def _idle(n: int) -> Target:
    promise = f"advance by 10^9 empty ticks against one, {n:,} pending"
    return Target(promise, Cell("idle_leap", LEADER, n), Cell("idle_tick", LEADER, n), "<=", 20)


TARGETS = (
    _faster("start", "asyncio", MILLION, 12),
    _faster("start", "uvloop", MILLION, 10),
    _faster("start_stop", "asyncio", MILLION, 25),
    _faster("start_stop", "uvloop", MILLION, 25),
    _faster("stop", "asyncio", MILLION, 2.5),
    _faster("expire", "asyncio", MILLION, 10),
    Target(f"bytes a pending timer takes, n = {MILLION:,}", Cell("bytes", LEADER, MILLION), None, "<=", 88),
    _flat("start_stop", 1.5),
    _flat("start_more", 1.5),
    _flat("stop_some", 1.5),
    Target(
        f"collect: against asyncio, n = {MILLION:,}",
        Cell("collect", LEADER, MILLION),
        Cell("collect", "asyncio", MILLION),
        "<=",
        1 / 20,
    ),
    _idle(0),
    _idle(THOUSAND),
    # Small enough that memory is used again: a million fresh timers cost the kernel as much as either call does.
    Target(
        f"start_many against start, n = {TEN_THOUSAND:,}",
        Cell("start_many", LEADER, TEN_THOUSAND),
        Cell("start", LEADER, TEN_THOUSAND),
        "<=",
        0.7,
    ),
    _faster("start", "asyncio", PURE_N, 1, relation=">", subject=PURE),
    _faster("start_stop", "asyncio", PURE_N, 1, relation=">", subject=PURE),
    _faster("start_stop", "asyncio", MILLION, 8, subject=LOOP),
    _faster("start_stop", "uvloop", MILLION, 8, subject=LOOP),
    *_handle(HANDLES),
    *_handle(ASYNC_HANDLES),
    _faster("timeout", "asyncio.timeout", TEN_THOUSAND, 4, subject=TIMEOUT),
    _faster("timeout", "asyncio.timeout", TEN_THOUSAND, 4, subject=TIMEOUT_ON_LOOP),
    _faster("after_cancel", "threading.Timer", 0, 100, subject=THREADS),
    _faster("after_cancel", "threading.Timer", 100, 100, subject=THREADS),
    Target(
        f"99 % of {HUNDRED_THOUSAND:,} timers a second: late, in ms",
        Cell("lateness", THREADS, HUNDRED_THOUSAND),
        None,
        "<=",
        3,
    ),
    Target(
        f"of {HUNDRED_THOUSAND:,} timers a second: early",
        Cell("early", THREADS, HUNDRED_THOUSAND),
        None,
        "<=",
        0,
    ),
    _faster("cache_set", "cachetools.TTLCache", HUNDRED_THOUSAND, 2, subject=CACHE),
    _faster("cache_evict", "cachetools.TTLCache", MILLION, 3, subject=CACHE),
    _faster("cache_get", "cachetools.TTLCache", MILLION, 3, subject=CACHE),
    _faster("cache_get_random", "cachetools.TTLCache", MILLION, 3, subject=CACHE),
    Target(
        f"cache_replace: against an OrderedDict with a lock, n = {MILLION:,}",
        Cell("cache_replace", CACHE, MILLION),
        Cell("cache_replace", LOCKED_DICT, MILLION),
        "<=",
        0.9,
    ),
    Target(f"ns a touch takes, n = {TEN_THOUSAND:,}", Cell("touch", IDLE, TEN_THOUSAND), None, "<=", 150),
)


def judge(
    median: Callable[[Cell], float | None], *, collector: bool, targets: Iterable[Target] = TARGETS
) -> list[Verdict[Target]]:
    """Work out every target from the medians of a run."""
    return [Verdict(target, _value(target, median, collector=collector)) for target in targets]


def needed_cells(collectors: Iterable[bool], targets: Iterable[Target] = TARGETS) -> frozenset[Cell]:
    """List the cells the targets speak of."""
    named = [cell for target in targets for cell in (target.over, target.under) if cell is not None]
    return frozenset(_placed(cell, collector=collector) for collector in collectors for cell in named)


def _value(target: Target, median: Callable[[Cell], float | None], *, collector: bool) -> float | None:
    over = median(_placed(target.over, collector=collector))
    if target.under is None or over is None:
        return over
    under = median(_placed(target.under, collector=collector))
    return over / under if under else None


def _placed(cell: Cell, *, collector: bool) -> Cell:
    """Return the cell as it is measured: some only with the collector on."""
    return cell.turned(collector=collector or not WORKLOADS[cell.workload].both_collectors)
