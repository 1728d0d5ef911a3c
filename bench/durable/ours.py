"""Samples of tickwheel: durable tasks in an SQLite file or another store, with the options it has by default."""

from __future__ import annotations

import asyncio
import random
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from bench.durable.setting import DAYS_AHEAD, Figures, Setting
from tickwheel import AsyncScheduler
from tickwheel.scheduler.task_builder import build_task
from tickwheel.stores.sqlite import SqliteStore
from tickwheel.tasks.record import Status, Task
from tickwheel.tasks.registry import Handler

__all__ = ["add_alone", "add_many", "add_together", "draft_far", "far", "far_id", "fill_far", "fire", "lateness"]

BATCH = 1_000  # tasks in one add_many
FILL_BATCH = 10_000  # the most a store takes at once
CALLERS = 64
PAGE = 100
PAGES = 5  # that are listed before it begins again: full ones in the smaller file as well
FAR_OPERATIONS = 150  # adds, and cancels, in one sample: in five turns fewer than there are in the smaller file
LATENESS_S = 3.0  # how long tasks come due
SHARES = {"p50_ms": 0.5, "p99_ms": 0.99, "p999_ms": 0.999}
LEAD_S = 3.0  # from when all are added until the first is due: long enough to start, also while tests run
FILL_MARGIN = 5.0  # adding may become so much slower than it was at first
PATIENCE_S = 120.0  # for all tasks to be over
ADDED_MS = 1_700_000_000_000  # about when far tasks were added, a batch each millisecond
DELAY = f"{DAYS_AHEAD}d"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _url(setting: Setting) -> str:
    return setting.url or f"sqlite:///{setting.folder}/tasks.db"


# -- adding


def add_many(setting: Setting) -> Figures:
    """Add n far tasks in batches; nobody runs them."""

    async def sample() -> Figures:
        wishes = [{"handler": "noop", "args": {"order_id": n}, "delay": DELAY} for n in range(setting.n)]
        async with AsyncScheduler(_url(setting), run=False) as scheduler:
            began_s = time.perf_counter()
            for first in range(0, setting.n, BATCH):
                await scheduler.add_many(wishes[first : first + BATCH])
            took_s = time.perf_counter() - began_s
            assert (await scheduler.counts())[Status.PENDING] == setting.n
        return {"per_s": setting.n / took_s}

    return asyncio.run(sample())


def add_alone(setting: Setting) -> Figures:
    """Add n far tasks, each when the last one was acknowledged."""
    return asyncio.run(_add(setting, callers=1))


def add_together(setting: Setting) -> Figures:
    """Add n far tasks from many callers, each of whom waits for what it adds."""
    return asyncio.run(_add(setting, callers=CALLERS))


async def _add(setting: Setting, *, callers: int) -> Figures:
    async with AsyncScheduler(_url(setting), run=False) as scheduler:

        async def call(adds: int) -> None:
            for n in range(adds):
                await scheduler.add("noop", {"order_id": n}, delay=DELAY)

        adds = max(setting.n // callers, 1)
        began_s = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for _ in range(callers):
                group.create_task(call(adds))
        took_s = time.perf_counter() - began_s
        assert (await scheduler.counts())[Status.PENDING] == adds * callers
    return {"per_s": adds * callers / took_s}


# -- running


class Witness:
    """A handler that remembers when it was called, and for when."""

    def __init__(self) -> None:
        self.called_ns: list[int] = []
        self.due_ms: list[int] = []

    async def noop(self, due_ms: int) -> None:
        """Do nothing else."""
        self.called_ns.append(time.time_ns())
        self.due_ms.append(due_ms)


def fire(setting: Setting) -> Figures:
    """Run n tasks that are all due at one moment; they are over when the store counts them as completed."""

    async def sample() -> Figures:
        witness, over_ns = await _run(setting, [0.0] * setting.n)
        return {"per_s": setting.n * 1e9 / (over_ns - witness.due_ms[0] * 1_000_000)}

    return asyncio.run(sample())


def lateness(setting: Setting) -> Figures:
    """Run n tasks a second, evenly spaced, for some seconds."""

    async def sample() -> Figures:
        tasks = int(setting.n * LATENESS_S)
        witness, _ = await _run(setting, [number * 1000 / setting.n for number in range(tasks)])
        pairs = zip(witness.called_ns, witness.due_ms, strict=True)
        late_ns = sorted(called_ns - due_ms * 1_000_000 for called_ns, due_ms in pairs)
        figures: Figures = {name: late_ns[int(tasks * share)] / 1e6 for name, share in SHARES.items()}
        return {**figures, "early": sum(late < 0 for late in late_ns)}

    return asyncio.run(sample())


async def _run(setting: Setting, offsets_ms: list[float]) -> tuple[Witness, int]:
    """Add tasks that are due at so many milliseconds after a moment, then run them; return when all were over."""
    witness = Witness()
    async with AsyncScheduler(_url(setting), run=False) as adder:
        began_s = time.perf_counter()  # how long it takes is tried on some that do not come due
        await adder.add_many([{"handler": "noop", "args": {"due_ms": 0}, "delay": DELAY}] * BATCH)
        fill_s = (time.perf_counter() - began_s) * len(offsets_ms) / BATCH
        first_ms = time.time_ns() // 1_000_000 + int(1000 * (LEAD_S + FILL_MARGIN * fill_s))
        wishes = [_wish(first_ms + int(offset_ms)) for offset_ms in offsets_ms]
        for first in range(0, len(wishes), BATCH):
            await adder.add_many(wishes[first : first + BATCH])
    scheduler = AsyncScheduler(_url(setting))
    scheduler.task("noop")(witness.noop)
    async with scheduler, asyncio.timeout(PATIENCE_S):
        if time.time_ns() // 1_000_000 >= first_ms:
            raise TimeoutError("the first tasks came due before all were added: the machine is too busy")
        # Looking now and then is cheaper for the loop that is measured than being told of each.
        while len(witness.called_ns) < len(wishes):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        while (await scheduler.counts())[Status.COMPLETED] < len(wishes):  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        return witness, time.time_ns()


def _wish(due_ms: int) -> dict[str, Any]:
    return {"handler": "noop", "args": {"due_ms": due_ms}, "at": EPOCH + timedelta(milliseconds=due_ms)}


# -- many that are far


def draft_far(task_id: str, now_ms: int, partitions: int) -> Task:
    """Make a task of the same form as everywhere here."""
    handler = Handler(name="noop", function=draft_far)
    return build_task(handler, {"args": {"order_id": 7}, "delay": DELAY}, task_id, now_ms * 1_000_000, partitions)


def far_id(number: int) -> str:
    """Return an id like those that are given by default: by time, and then by chance."""
    return f"{ADDED_MS + number // BATCH:012x}{random.Random(number).getrandbits(80):020x}"


def fill_far(setting: Setting) -> Figures:
    """Fill a file with n far tasks, through the store."""

    async def fill() -> Figures:
        now_ms = time.time_ns() // 1_000_000
        store = await SqliteStore.open(setting.folder / "tasks.db", now_ms=lambda: now_ms)
        began_s = time.perf_counter()
        for first in range(0, setting.n, FILL_BATCH):
            numbers = range(first, min(first + FILL_BATCH, setting.n))
            await store.add([draft_far(far_id(number), now_ms, store.partitions) for number in numbers])
            print(
                f"\r\x1b[Kfilling a file: {numbers.stop:,} of {setting.n:,} tasks", end="", file=sys.stderr, flush=True
            )
        await store.close()
        return {"per_s": setting.n / (time.perf_counter() - began_s)}

    return asyncio.run(fill())


def far(setting: Setting) -> Figures:
    """Start a scheduler on a file with n far tasks, then add, cancel and list some."""

    async def sample() -> Figures:
        scheduler = AsyncScheduler(_url(setting))
        scheduler.task("noop")(Witness().noop)
        async with scheduler:
            start_s = (time.monotonic_ns() - setting.began_ns) / 1e9
            figures = {"start_s": start_s, "memory_mb": _resident_mb()}
            if setting.n:
                figures |= await _change_some(scheduler, setting)
        return figures

    return asyncio.run(sample())


async def _change_some(scheduler: AsyncScheduler, setting: Setting) -> Figures:
    operations = min(FAR_OPERATIONS, setting.n)
    order = random.Random(setting.n).sample(range(setting.n), min(setting.n, 5 * FAR_OPERATIONS))
    begin = setting.turn * operations
    cancelled = [far_id(number) for number in order[begin : begin + operations]]
    began_s = time.perf_counter()
    for _ in range(operations):
        await scheduler.add("noop", {"due_ms": 0}, delay=DELAY)
    added_s = time.perf_counter()
    for task_id in cancelled:
        await scheduler.cancel(task_id)
    cancelled_s = time.perf_counter()
    cursor = None
    for number in range(operations):
        page = await scheduler.list(cursor=cursor if number % PAGES else None, limit=PAGE)
        cursor = page.cursor
    listed_s = time.perf_counter()
    return {
        "add_us": (added_s - began_s) * 1e6 / operations,
        "cancel_us": (cancelled_s - added_s) * 1e6 / operations,
        "list_us": (listed_s - cancelled_s) * 1e6 / operations,
    }


def _resident_mb() -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1000
    raise OSError("there is no VmRSS in /proc/self/status")
