"""`python -m bench.sizing`: what a task takes where it waits, and what a node takes that has nothing to do.

    disk     bytes of a task that waits, and of one that is over with its run, in an SQLite file and in PostgreSQL
    memory   bytes of a task on the wheel, and how fast the wheel is filled
    idle     statements a second that a node with nothing to do sends to PostgreSQL

These are the constants that docs/sizing.md reckons with.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import asyncpg
from rich.console import Console
from rich.table import Table

from bench.results import environment
from tickwheel import AsyncScheduler
from tickwheel.scheduler.engine.due_index import WHEEL_MAX
from tickwheel.tasks import Status
from tickwheel.testing.postgres import PostgresServer

__all__ = ["main"]

BATCH = 1_000
FAR_S, NEAR_S = 30 * 86_400, 300
IDLE_S = 10.0
FOLDER = Path(__file__).parent / "results"

Figures = dict[str, float]
Size = Callable[[], Awaitable[int]]


async def fill(scheduler: AsyncScheduler, tasks: int, delay_s: float) -> None:
    """Add tasks as a shop has them."""
    for first in range(0, tasks, BATCH):
        await scheduler.add_many(
            {"handler": "orders.cancel", "args": {"order_id": first + n}, "delay": delay_s} for n in range(BATCH)
        )


async def disk(store: str, size: Size, tasks: int) -> tuple[float, float]:
    """Return the bytes of a task that waits, and of one that is over."""
    adder = AsyncScheduler(store, run=False)
    async with adder:
        empty = await size()
        await fill(adder, tasks, FAR_S)
        waiting = await size() - empty
        await fill(adder, tasks, 0)
    runner = AsyncScheduler(store)

    @runner.task("orders.cancel")
    async def cancel(order_id: int) -> None:
        """Do as if."""

    async with runner:
        while (await runner.counts())[Status.COMPLETED] < tasks:  # noqa: ASYNC110 - it is about the store
            await asyncio.sleep(0.1)
    return waiting / tasks, (await size() - empty - waiting) / tasks


async def in_sqlite(folder: Path, tasks: int) -> Figures:
    """Measure a file."""

    async def size() -> int:
        # Without the log beside it, which is as long as one transaction.
        return os.stat(folder / "tasks.db").st_size  # noqa: PTH116 - a moment's work

    waiting, over = await disk(f"sqlite:///{folder}/tasks.db", size, tasks)
    return {"sqlite_bytes_waiting": waiting, "sqlite_bytes_over": over}


async def in_postgres(url: str, tasks: int) -> Figures:
    """Measure a database, and how much a node asks of it that has nothing to do."""
    connection = await asyncpg.connect(url)

    async def size() -> int:
        await connection.execute("CHECKPOINT")
        asked = "SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE relname = ANY($1)"
        return int(await connection.fetchval(asked, ["tasks", "runs"]))

    async def asked() -> int:
        await connection.fetchval("SELECT pg_stat_clear_snapshot()")
        return int(await connection.fetchval("SELECT sum(xact_commit + xact_rollback) FROM pg_stat_database"))

    waiting, over = await disk(url, size, tasks)
    async with AsyncScheduler(f"{url}?schema=idle"):
        await asyncio.sleep(2)
        before = await asked()
        await asyncio.sleep(IDLE_S)
        idle_per_s = (await asked() - before) / IDLE_S
    await connection.close()
    return {"postgres_bytes_waiting": waiting, "postgres_bytes_over": over, "postgres_idle_per_s": idle_per_s}


async def memory(folder: Path, tasks: int) -> Figures:
    """Measure what near tasks take in a process that runs them."""
    store = f"sqlite:///{folder}/near.db"
    tasks = min(tasks, WHEEL_MAX)  # others wait in the store alone
    async with AsyncScheduler(store):
        gc.collect()
        empty = resident()
    async with AsyncScheduler(store, run=False) as adder:
        await fill(adder, tasks, NEAR_S)
    gc.collect()
    empty = max(empty, resident())
    begun = time.monotonic()
    async with AsyncScheduler(store) as runner:
        while (picture := runner.picture()) is None or picture.active < tasks:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)
        took_s = time.monotonic() - begun
        gc.collect()
        return {"wheel_bytes": (resident() - empty) / tasks, "load_per_s": tasks / took_s, "process_mb": empty / 2**20}


def resident() -> int:
    """Return the memory of this process, in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main(arguments: list[str] | None = None) -> int:
    """Measure, tell and write down."""
    parser = argparse.ArgumentParser(prog="python -m bench.sizing", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--tasks", type=int, default=100_000, help="of each kind, in whole thousands (default 100,000)")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--out", type=Path, default=FOLDER)
    asked = parser.parse_args(arguments)
    tasks = max(asked.tasks // BATCH, 1) * BATCH
    with tempfile.TemporaryDirectory() as name, PostgresServer.fresh() as server:
        folder = Path(name)
        figures = asyncio.run(memory(folder, tasks))
        figures |= asyncio.run(in_sqlite(folder, tasks))
        figures |= asyncio.run(in_postgres(server.url, tasks))
    document = {"environment": environment(), "tasks": tasks, "figures": figures}
    asked.out.mkdir(parents=True, exist_ok=True)
    (asked.out / "sizing.json").write_text(json.dumps(document, indent=1) + "\n")
    if asked.json:
        print(json.dumps(document, indent=1))
        return 0
    table = Table("constant", "measured", title=f"{tasks:,} tasks of each kind", title_justify="left")
    for figure, value in figures.items():
        table.add_row(figure, f"{value:,.3g}" if value < BATCH else f"{value:,.0f}")
    Console().print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
