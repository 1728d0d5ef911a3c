"""How tasks look: a table or a page for people, one JSON value for programs (`--json`)."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec.structs import asdict
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tickwheel.stores.contract import Page
from tickwheel.tasks import Run, Status, Task, UnreadableTask

__all__ = ["print_json", "print_task", "print_tasks"]

STYLE_OF_STATUS = {
    Status.PENDING: "cyan",
    Status.PAUSED: "yellow",
    Status.RUNNING: "blue",
    Status.COMPLETED: "green",
    Status.FAILED: "red",
    Status.CANCELLED: "dim",
}


def print_json(value: Any) -> None:
    """Print a value for programs."""
    print(msgspec.json.format(msgspec.json.encode(whole(value)), indent=1).decode())


def whole(value: Any) -> Any:
    """Write out of every task what a store leaves out because it is as usual."""
    if isinstance(value, Task | Page):
        value = asdict(value)
    if isinstance(value, dict):
        return {name: whole(each) for name, each in value.items()}
    return [whole(each) for each in value] if isinstance(value, list) else value


def moment(ms: int | None) -> str:
    """Write a moment in UTC."""
    return "" if ms is None else datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def print_tasks(console: Console, tasks: Iterable[Task]) -> None:
    """Print tasks as a table."""
    table = Table("id", "handler", "status", "due (UTC)", "attempts", "why")
    for task in tasks:
        status = f"[{STYLE_OF_STATUS[task.status]}]{task.status}[/]"
        table.add_row(task.id, task.handler, status, moment(task.run_at), str(task.attempt), task.reason or "")
    console.print(table)


def print_task(console: Console, task: Task, runs: Iterable[Run], why: str) -> None:
    """Print everything about a task."""
    table = Table.grid(padding=(0, 2))
    for name, value in (
        ("id", task.id),
        ("handler", task.handler),
        ("status", f"[{STYLE_OF_STATUS[task.status]}]{task.status}[/]"),
        ("", why),
        ("due (UTC)", moment(task.run_at)),
        ("trigger", str(task.trigger)),
        ("arguments", msgspec.json.encode(task.args).decode()),
        ("attempts", str(task.attempt)),
        ("result", "" if task.result is None else msgspec.json.encode(task.result).decode()),
        ("error", task.error or ""),
        ("stored", escape(task.raw) if isinstance(task, UnreadableTask) else ""),
    ):
        if value:
            table.add_row(f"[dim]{name}[/]", value)
    console.print(table)
    history = Table("attempt", "for (UTC)", "started (UTC)", "took", "came to")
    for run in runs:
        took = f"{(run.finished_at - run.started_at) / 1000:g} s"
        history.add_row(
            str(run.attempt), moment(run.occurrence_at), moment(run.started_at), took, run.reason or run.status
        )
    if history.row_count:
        console.print(history)
