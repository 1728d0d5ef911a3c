"""`tickwheel bench`: what this machine and this disk can do, in some seconds. To compare, measure twice."""

import asyncio
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress

from tickwheel import build, wheels
from tickwheel.cli import output
from tickwheel.cli.commands import app, console, plainly
from tickwheel.cli.places import JsonOption
from tickwheel.errors import InvalidTask
from tickwheel.observe.events import Event
from tickwheel.scheduler import AsyncScheduler
from tickwheel.timers.event_loop import EventLoop
from tickwheel.wheels import HierarchicalWheel

__all__: list[str] = []

TIMERS = 200_000
TIMER_TICKS = 1_000
BATCH = 1_000
CALLERS, ADDS_EACH = 64, 20
RATE_PER_S, LATENESS_S, LEAD_S = 1_000, 2, 1.0

Figures = dict[str, float]


@app.command()
@plainly
def bench(
    *,
    n: Annotated[int, typer.Option("-n", min=1_000, max=1_000_000, help="Durable tasks to add and to run")] = 10_000,
    folder: Annotated[
        Path | None, typer.Option(help="A folder on the disk to measure; default: a temporary one")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Measure timers, and durable tasks in an SQLite file that is deleted afterwards."""
    if folder is not None and not folder.is_dir():
        raise InvalidTask(f"{folder} is no folder; --folder takes one on the disk that is to be measured")
    figures: Figures = {}
    with (
        tempfile.TemporaryDirectory(prefix="tickwheel-bench-", dir=folder) as place,
        Progress(console=Console(stderr=True), transient=True) as progress,
    ):
        bar = progress.add_task("timers", total=4)

        def ahead(what: str) -> None:
            progress.update(bar, advance=1, description=what)

        figures |= measure_timers()
        with asyncio.Runner(loop_factory=EventLoop) as runner:
            figures |= runner.run(measure_tasks(f"sqlite:///{place}/tasks.db", n, ahead))
    compiled = build.compiled(wheels)
    if as_json:
        output.print_json({"compiled": compiled, "tasks": n, **figures})
        return
    console.print(f"tickwheel is {'compiled' if compiled else 'interpreted, several times slower'}", highlight=False)
    for name, figure in figures.items():
        console.print(f"{figure:>12,.{0 if figure >= 10 else 2}f}  {name}", highlight=False)  # noqa: PLR2004


def measure_timers() -> Figures:
    """Start timers in a wheel, and stop every other one; let the rest fire."""
    wheel = HierarchicalWheel()
    began_ns = time.perf_counter_ns()
    timers = [wheel.start(1 + number % TIMER_TICKS, number) for number in range(TIMERS)]
    started_ns = time.perf_counter_ns()
    for timer in timers[::2]:
        wheel.stop(timer)
    stopped_ns = time.perf_counter_ns()
    fired = len(wheel.advance(TIMER_TICKS))
    fired_ns = time.perf_counter_ns()
    return {
        "ns to start a timer": (started_ns - began_ns) / TIMERS,
        "ns to stop one": (stopped_ns - started_ns) / len(timers[::2]),
        "ns for one to fire": (fired_ns - stopped_ns) / fired,
    }


async def measure_tasks(url: str, n: int, ahead: Callable[[str], None]) -> Figures:
    """Add durable tasks in batches and by many callers, run them, and see how late they are."""
    figures: Figures = {}
    async with AsyncScheduler(url, run=False) as adding:
        ahead("adding in batches")
        began_s = time.perf_counter()
        for first in range(0, n, BATCH):
            await adding.add_many([{"handler": "noop"}] * min(BATCH, n - first))
        figures["tasks added a second, in batches"] = n / (time.perf_counter() - began_s)
        ahead("adding one by one")
        began_s = time.perf_counter()
        await asyncio.gather(*(_add_some(adding) for _ in range(CALLERS)))
        figures[f"tasks added a second, one by one, by {CALLERS} callers"] = (
            CALLERS * ADDS_EACH / (time.perf_counter() - began_s)
        )
    late_ms: list[int] = []
    scheduler = AsyncScheduler(url)
    scheduler.task("noop")(_noop)
    scheduler.task("late")(_noop)
    ended = asyncio.Event()
    left = n + CALLERS * ADDS_EACH

    def hear(event: Event) -> None:
        nonlocal left
        if event.kind == "completed":
            left -= 1
            if not left:
                ended.set()
        if event.kind == "started" and event.handler == "late" and event.late_ms is not None:
            late_ms.append(event.late_ms)

    ahead("running them")
    scheduler.events.listen(hear)
    began_s = time.perf_counter()
    async with scheduler:
        await ended.wait()
        figures["tasks run a second"] = (n + CALLERS * ADDS_EACH) / (time.perf_counter() - began_s)
        ahead("looking how late they are")
        ended.clear()
        left = RATE_PER_S * LATENESS_S
        delays = [LEAD_S + number / RATE_PER_S for number in range(left)]
        await scheduler.add_many([{"handler": "late", "delay": delay} for delay in delays])
        await ended.wait()
    late_ms.sort()
    for share in (50, 99):
        figures[f"ms late, {share} % of {RATE_PER_S:,} tasks a second"] = late_ms[len(late_ms) * share // 100]
    return figures


async def _add_some(scheduler: AsyncScheduler) -> None:
    for _ in range(ADDS_EACH):
        await scheduler.add("noop", delay=0)


async def _noop() -> None:
    """Do nothing."""
