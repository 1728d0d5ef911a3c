"""Every command, one function each; their options are what `--help` shows."""

import importlib
import sys
from collections.abc import Callable
from datetime import datetime
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, ParamSpec

import msgspec
import typer
from rich.console import Console

from tickwheel import build, wheels
from tickwheel.cli import output
from tickwheel.cli.places import DEFAULT_STORE, JsonOption, StoreOption, TokenOption, UrlOption, opened
from tickwheel.clock import SystemClock
from tickwheel.cluster.ownership import version
from tickwheel.errors import InvalidTask, TickwheelError
from tickwheel.scheduler import AsyncScheduler, Scheduler
from tickwheel.tasks import Status, Task
from tickwheel.tasks.explain import Around, explain

__all__ = ["app"]

P = ParamSpec("P")

app = typer.Typer(
    name="tickwheel",
    help="Durable delayed, periodic and cron tasks.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
console = Console()


def plainly(command: Callable[P, None]) -> Callable[P, None]:
    """Print what tickwheel has to say in one line, and end with exit code 1."""

    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except TickwheelError as error:
            print(f"tickwheel: {output.unmarked(str(error), lines=True)}", file=sys.stderr)
            raise typer.Exit(1) from None

    return run


def now_ms() -> int:
    """Read the wall clock."""
    return SystemClock().time_ns() // 1_000_000


def show_version(wanted: bool) -> None:  # noqa: FBT001 - as typer calls it
    """Print the version and which build is loaded, and end."""
    if wanted:
        print(f"tickwheel {version()} {'compiled' if build.compiled(wheels) else 'interpreted'}")
        raise typer.Exit


@app.callback()
def before_any_command(
    *,
    show: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Print the version and the build")
    ] = False,
) -> None:
    """Take the options that go before a command."""


def find_scheduler(target: str) -> Scheduler | AsyncScheduler:
    """Import `module:name` and return the scheduler there."""
    module_name, _, name = target.partition(":")
    sys.path.insert(0, str(Path.cwd()))
    try:
        found = getattr(importlib.import_module(module_name), name or "scheduler")
    except (ImportError, AttributeError, ValueError, TypeError) as error:  # the last two, of an empty or relative name
        raise InvalidTask(f"there is no scheduler at {target!r}: {error}; write it as module:name") from error
    if not isinstance(found, (Scheduler, AsyncScheduler)):
        raise InvalidTask(f"{target!r} is a {type(found).__name__}, not a Scheduler")
    return found


@app.command()
@plainly
def add(
    handler: str,
    args: Annotated[str, typer.Argument(help="Arguments as JSON")] = "{}",
    *,
    delay: Annotated[str | None, typer.Option(help="30m, 30d, PT5M")] = None,
    at: Annotated[str | None, typer.Option(help="2027-01-31T09:00:00+01:00")] = None,
    every: Annotated[str | None, typer.Option(help="1h")] = None,
    cron: Annotated[str | None, typer.Option(help="'0 9 * * 1-5'")] = None,
    tz: Annotated[str | None, typer.Option(help="Europe/Berlin; for cron")] = None,
    task_id: Annotated[str | None, typer.Option("--id")] = None,
    retries: Annotated[int | None, typer.Option()] = None,
    priority: Annotated[int | None, typer.Option()] = None,
    overlap: Annotated[str | None, typer.Option(help="If the last occurrence still runs: skip or queue_one")] = None,
    max_crashes: Annotated[int | None, typer.Option(help="Deaths of its process until a task fails")] = None,
    tag: Annotated[list[str] | None, typer.Option(help="A word to find it by; may be said often")] = None,
    on_conflict: Annotated[str, typer.Option(help="reject, replace, keep or debounce")] = "reject",
    store: StoreOption = DEFAULT_STORE,
    url: UrlOption = None,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Add a task."""
    said = {
        "delay": delay,
        "every": every,
        "cron": cron,
        "tz": tz,
        "id": task_id,
        "retries": retries,
        "priority": priority,
        "overlap": overlap,
        "max_crashes": max_crashes,
        "tags": tag or None,
    }
    wishes: dict[str, Any] = {name: value for name, value in said.items() if value is not None}
    if at is not None:
        wishes["at"] = read_time(at)
    with opened(store, url, token, create=True) as scheduler:
        task = scheduler.add(handler, read_args(args), on_conflict=on_conflict, **wishes)  # type: ignore[arg-type]
    show_one(task, as_json=as_json)


def read_args(text: str) -> dict[str, Any]:
    """Read the arguments of a task."""
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeEncodeError) as error:  # what the shell gave may be no text
        raise InvalidTask(f"arguments are a JSON object, like '{{\"order_id\": 7}}': {error}") from None


def read_time(text: str) -> datetime:
    """Read a time."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise InvalidTask(f"a time is written as 2027-01-31T09:00:00+01:00, not {text!r}") from None


def show_one(task: Task, *, as_json: bool) -> None:
    """Print a task that was just changed."""
    task = task if task.reason_code else explain(task, Around(now=now_ms()))  # a server explains what it returns
    if as_json:
        output.print_json(task)
    else:
        wait_ms = task.run_at - now_ms()
        reason = f"due in {output.span(wait_ms)}" if task.reason_code == "not_due" and wait_ms > 0 else task.reason
        words = f"{task.id}: {task.listed_status}{f', {reason}' if reason else ''}"
        console.print(output.visible(words), highlight=False)


@app.command("list")
@plainly
def list_tasks(
    *,
    status: Annotated[Status | None, typer.Option()] = None,
    handler: Annotated[str | None, typer.Option()] = None,
    prefix: Annotated[str | None, typer.Option(help="How the id begins")] = None,
    tag: Annotated[str | None, typer.Option()] = None,
    text: Annotated[str | None, typer.Option(help="Somewhere in the id, the handler or a tag")] = None,
    order: Annotated[str, typer.Option(help="newest, oldest, or due: the next first")] = "newest",
    limit: Annotated[int, typer.Option(min=1, max=1000)] = 50,
    cursor: Annotated[str | None, typer.Option(help="Where the last page ended")] = None,
    store: StoreOption = DEFAULT_STORE,
    url: UrlOption = None,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """List tasks, newest first by default."""
    with opened(store, url, token) as scheduler:
        page = scheduler.list(
            status=status,
            handler=handler,
            id_prefix=prefix,
            tag=tag,
            text=text,
            order=order,  # type: ignore[arg-type] # the store refuses what there is not
            cursor=cursor,
            limit=limit,
        )
    if as_json:
        output.print_json(page)
        return
    output.print_tasks(console, page.tasks)
    if page.cursor is not None:
        console.print(f"there are more: --cursor {output.visible(page.cursor)}", style="dim", highlight=False)


@app.command()
@plainly
def show(
    task_id: str,
    *,
    store: StoreOption = DEFAULT_STORE,
    url: UrlOption = None,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show a task, its runs, and why it has not run yet."""
    with opened(store, url, token) as scheduler:
        task, runs = scheduler.get(task_id), scheduler.history(task_id)
    if as_json:
        output.print_json({"task": task, "runs": runs})
    else:
        output.print_task(console, task, runs)


@app.command()
@plainly
def cancel(
    task_id: str,
    *,
    reason: str = "cancelled by hand",
    run_only: Annotated[
        bool, typer.Option("--run-only", help="Stop only the present run of a recurring task; its series continues")
    ] = False,
    store: StoreOption = DEFAULT_STORE,
    url: UrlOption = None,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Cancel a task; a running one is asked to stop."""
    with opened(store, url, token) as scheduler:
        show_one(scheduler.cancel(task_id, reason, run_only=run_only), as_json=as_json)


@app.command()
@plainly
def pause(
    task_id: str,
    *,
    store: StoreOption = DEFAULT_STORE,
    url: UrlOption = None,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Keep a task from beginning; the present run continues."""
    with opened(store, url, token) as scheduler:
        show_one(scheduler.pause(task_id), as_json=as_json)


@app.command()
@plainly
def resume(
    task_id: str,
    *,
    run_missed: Annotated[
        bool, typer.Option("--run-missed", help="Apply the missed-run policy to occurrences missed while paused")
    ] = False,
    store: StoreOption = DEFAULT_STORE,
    url: UrlOption = None,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Resume a paused task: an overdue one now, a recurring one with its next occurrence."""
    with opened(store, url, token) as scheduler:
        show_one(scheduler.resume(task_id, run_missed=run_missed), as_json=as_json)


@app.command("run-now")
@plainly
def run_now(
    task_id: str,
    *,
    store: StoreOption = DEFAULT_STORE,
    url: UrlOption = None,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run a waiting task now; for a recurring task this is an extra run."""
    with opened(store, url, token) as scheduler:
        show_one(scheduler.run_now(task_id), as_json=as_json)


@app.command()
@plainly
def reschedule(
    task_id: str,
    *,
    delay: str | None = None,
    at: str | None = None,
    store: StoreOption = DEFAULT_STORE,
    url: UrlOption = None,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Move a task that waits."""
    moment = None if at is None else read_time(at)
    with opened(store, url, token) as scheduler:
        show_one(scheduler.reschedule(task_id, delay=delay, at=moment), as_json=as_json)


@app.command()
@plainly
def retry(
    task_id: str,
    *,
    store: StoreOption = DEFAULT_STORE,
    url: UrlOption = None,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Let a task that is over run again."""
    with opened(store, url, token) as scheduler:
        show_one(scheduler.retry(task_id), as_json=as_json)
