"""`tickwheel cron`, `simulate` and `top`: what is, and what will be; nothing is changed."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import Progress

from tickwheel.cli import output
from tickwheel.cli.commands import app, console, now_ms, plainly, read_time
from tickwheel.cli.places import DEFAULT_STORE, JsonOption, StoreOption, TokenOption, UrlOption, opened
from tickwheel.errors import InvalidTask
from tickwheel.scheduler import Scheduler
from tickwheel.scheduler.task_builder import moment_of
from tickwheel.tasks import Cron, Task
from tickwheel.tasks.triggers import preview
from tickwheel.tasks.upcoming_runs import COMING, preview_all

if TYPE_CHECKING:
    from tickwheel.cli.remote import RemoteScheduler

__all__: list[str] = []

DAY_MS = 86_400_000
DEFAULT_URL = "http://127.0.0.1:8765"


@app.command()
@plainly
def cron(
    expression: str,
    *,
    tz: str = "UTC",
    n: Annotated[int, typer.Option("-n", min=1, max=1000)] = 10,
    as_json: JsonOption = False,
) -> None:
    """Show when a cron expression is due next."""
    occurrences = preview(Cron(expression=expression, tz=tz), now_ms(), n)
    if as_json:
        output.print_json(occurrences)
        return
    for occurrence in occurrences:
        console.print(occurrence.local, f"[yellow]{occurrence.note}[/]" if occurrence.note else "", highlight=False)


@app.command()
@plainly
def simulate(
    *,
    begin: Annotated[str | None, typer.Option("--from", help="2027-01-31T09:00:00+01:00; default: now")] = None,
    end: Annotated[str | None, typer.Option("--to", help="default: a day after --from")] = None,
    handler: Annotated[str | None, typer.Option()] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000)] = 100,
    store: StoreOption = DEFAULT_STORE,
    url: UrlOption = None,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what would run between two times; nothing is executed."""
    begin_ms = now_ms() if begin is None else moment_of(read_time(begin))
    end_ms = begin_ms + DAY_MS if end is None else moment_of(read_time(end))
    if end_ms < begin_ms:
        raise InvalidTask("--to comes before --from")
    with opened(store, url, token) as scheduler:
        runs = preview_all(every_task(scheduler, handler), begin_ms, end_ms, limit)
    if as_json:
        output.print_json([{"at": at, "id": task_id, "handler": name} for at, task_id, name in runs])
        return
    for at, task_id, name in runs:
        console.print(output.visible(f"{output.moment(at)}  {task_id}  {name}"), highlight=False)
    if len(runs) == limit:
        console.print(f"these are the first {limit:,}; --limit shows more", style="dim", highlight=False)


def every_task(scheduler: "Scheduler | RemoteScheduler", handler: str | None) -> Iterator[Task]:
    """Read all tasks that are still to run, with a bar for who waits that long."""
    total = sum(scheduler.counts().get(status, 0) for status in COMING)
    with Progress(console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("looking through the tasks", total=total)
        for status in sorted(COMING):
            cursor: str | None = None
            while True:
                page = scheduler.list(status=status, handler=handler, cursor=cursor, limit=1000)
                yield from page.tasks
                progress.advance(bar, len(page.tasks))
                cursor = page.cursor
                if cursor is None:
                    break


@app.command("watch", hidden=True)  # some look for it under this name
@app.command()
@plainly
def top(
    *,
    url: UrlOption = DEFAULT_URL,
    token: TokenOption = None,
    interval: Annotated[float, typer.Option(min=0.1, max=60, help="Seconds between two looks")] = 1.0,
    rounds: Annotated[int | None, typer.Option("-n", min=1, help="How many looks; default: until Ctrl-C")] = None,
) -> None:
    """Watch a server: its wheels, its tasks, and what happens."""
    from tickwheel.cli.client import Server  # noqa: PLC0415 - its packages are an extra
    from tickwheel.cli.top import watch  # noqa: PLC0415 - as above

    watch(Server(url or DEFAULT_URL, token), console, interval, rounds)
