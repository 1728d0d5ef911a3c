"""`tickwheel bulk`: the same for all tasks that fit, after a look at how many those are."""

from collections.abc import Iterator
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress

from tickwheel.cli import output
from tickwheel.cli.commands import app, console, plainly
from tickwheel.cli.places import DEFAULT_STORE, JsonOption, StoreOption, TokenOption, UrlOption, opened
from tickwheel.errors import InvalidTask
from tickwheel.scheduler import Scheduler
from tickwheel.scheduler.verbs import aimed_at
from tickwheel.stores.contract import Filter
from tickwheel.tasks import Status

__all__: list[str] = []

ACTIONS = ("cancel", "pause", "resume", "retry", "run", "delete")


@app.command()
@plainly
def bulk(
    action: Annotated[str, typer.Argument(help=", ".join(ACTIONS))],
    *,
    status: Annotated[Status | None, typer.Option()] = None,
    handler: Annotated[str | None, typer.Option()] = None,
    tag: Annotated[str | None, typer.Option()] = None,
    text: Annotated[str | None, typer.Option(help="In the id, the handler or a tag")] = None,
    prefix: Annotated[str | None, typer.Option(help="How the id begins")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask")] = False,
    store: StoreOption = DEFAULT_STORE,
    url: UrlOption = None,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Cancel, pause, resume, retry, run or delete all that fit; without --status, retry is for what failed."""
    if action not in ACTIONS:
        raise InvalidTask(f"an action is {', '.join(ACTIONS)}, not {action!r}")
    said = {"status": status, "name": handler, "tag": tag, "text": text, "id_prefix": prefix}
    wanted = {name: value for name, value in said.items() if value is not None}
    with opened(store, url, token) as scheduler:
        *_, counted = operate(scheduler, action, wanted, dry_run=True)
        if not dry_run:
            if not yes and not as_json:
                typer.confirm(f"{action} {counted['matched']:,} tasks?", abort=True)
            counted = shown(operate(scheduler, action, wanted, dry_run=False), action, counted["matched"])
    if as_json:
        output.print_json(counted)
    elif dry_run:
        console.print(f"{counted['matched']:,} tasks fit; without --dry-run they are to {action}", highlight=False)
    else:
        console.print(f"{action}: {counted['done']:,} done, {counted['skipped']:,} stay as they are", highlight=False)


def operate(scheduler: Any, action: Any, wanted: dict[str, Any], *, dry_run: bool) -> Iterator[dict[str, Any]]:
    """Do it in a store or have it done by a server, and tell how far it is."""
    if not isinstance(scheduler, Scheduler):
        yield from scheduler.operate(action, wanted, dry_run=dry_run)
        return
    fields = {"handler" if name == "name" else name: value for name, value in wanted.items()}
    told: dict[str, Any] = {"action": action, "dry_run": dry_run, "matched": 0, "done": 0, "skipped": 0}
    chosen = Filter(**fields)
    if dry_run:
        yield {**told, "matched": scheduler.count(aimed_at(action, chosen)).tasks}
        return
    for seen, changed in scheduler.sweep(action, chosen):
        yield {**told, "matched": seen, "done": changed, "skipped": seen - changed}


def shown(steps: Iterator[dict[str, Any]], action: str, total: int) -> dict[str, Any]:
    """Show a bar while it goes on, and return how it ended."""
    told: dict[str, Any] = {}
    with Progress(console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task(action, total=total)
        for told in steps:
            progress.update(bar, completed=told["matched"])
    if told.get("error"):
        raise InvalidTask(told["error"])
    return told
