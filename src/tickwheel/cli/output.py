r"""How tasks look: a table or a page for people, one JSON value for programs (`--json`).

What is stored is text of anyone who may add tasks: nothing of it reaches a terminal as a command, or rich as markup.

>>> visible("order-7\x1b[31m"), visible("two\nlines"), visible("[red]")
('order-7\\x1b[31m', 'two\\nlines', '\\[red]')
>>> span(480), span(61_000), span(30 * 86_400_000 + 3_700_000)
('0.5 s', '1 m 1 s', '30 d 1 h')
"""

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, Final

import msgspec
from msgspec.structs import asdict
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tickwheel.stores.contract import Page
from tickwheel.tasks import Run, Status, Task, UnreadableTask

__all__ = ["print_json", "print_task", "print_tasks", "span", "unmarked", "visible"]

# Control characters, those that change the direction of text or are not seen, and halves of characters.
CONTROL: Final = re.compile(
    "[\\x00-\\x1f\\x7f-\\x9f\\xad\\u061c\\u180e\\u200b\\u200e\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ufeff\\ufff9-\\ufffb"
    "\\ud800-\\udfff\\U000e0000-\\U000e007f]"
)

UNITS: Final = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))
STEPS: Final = tuple(pairwise(UNITS))
LAST_MS: Final = 253_402_300_799_999  # the end of the year 9999, and of the calendars of computers
EXACT_S: Final = 10  # below it, tenths of a second matter

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
    written = msgspec.json.format(msgspec.json.encode(whole(value)), indent=1).decode()
    print("\n".join(CONTROL.sub(_in_json, line) for line in written.split("\n")))  # inside of texts there is none


def _in_json(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[first : first + 2].hex()}" for first in range(0, len(units), 2))


def unmarked(text: str, *, lines: bool = False) -> str:
    """Make control characters visible, as Python writes them; of a text of several lines, those within each line."""
    if lines:
        return "\n".join(map(unmarked, text.splitlines()))
    return CONTROL.sub(lambda found: found[0].encode("unicode_escape", "surrogatepass").decode(), text)


def visible(text: str, *, lines: bool = False) -> str:
    """Make text that is stored fit to be printed by rich: without control characters, and not as markup."""
    return escape(unmarked(text, lines=lines))


def whole(value: Any) -> Any:
    """Write out of every task what a store leaves out because it is as usual."""
    if isinstance(value, Task | Page):
        value = asdict(value)
    if isinstance(value, dict):
        return {name: whole(each) for name, each in value.items()}
    return [whole(each) for each in value] if isinstance(value, list) else value


def moment(ms: int | None) -> str:
    """Write a moment in UTC; what is beyond the year 9999 is written as its end."""
    return "" if ms is None else datetime.fromtimestamp(min(ms, LAST_MS) / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def span(ms: int) -> str:
    """Write how long something is, in its two largest units: the rest does not matter."""
    if ms < EXACT_S * 1000:
        return f"{ms / 1000:.1f} s"
    seconds = round(ms / 1000)
    for (unit, size_s), (smaller, part_s) in STEPS:
        if seconds >= size_s:
            count, rest_s = divmod(seconds, size_s)
            return f"{count} {unit} {rest_s // part_s} {smaller}" if rest_s >= part_s else f"{count} {unit}"
    return f"{seconds} s"


def print_tasks(console: Console, tasks: Iterable[Task]) -> None:
    """Print tasks as a table."""
    table = Table("id", "handler", "status", "due (UTC)", "attempts", "reason")
    for task in tasks:
        status = f"[{STYLE_OF_STATUS[task.listed_status]}]{task.listed_status}[/]"
        table.add_row(
            visible(task.id),
            visible(task.handler),
            status,
            moment(task.run_at),
            str(task.attempt),
            visible(task.reason or ""),
        )
    console.print(table)


def counted(task: Task) -> str:
    """Say what went wrong so far, and how often; nothing if nothing did."""
    numbers = {
        "of this occurrence": task.failures,
        f"crashes (at most {task.max_crashes})": task.crashes,
        "snoozes": task.snoozes,
        "occurrences in succession": task.consecutive_failures,
    }
    return ", ".join(f"{number} {name}" for name, number in numbers.items() if number)


def print_task(console: Console, task: Task, runs: Iterable[Run]) -> None:
    """Print everything about a task."""
    table = Table.grid(padding=(0, 2))
    for name, value in (
        ("id", visible(task.id)),
        ("handler", visible(task.handler)),
        ("status", f"[{STYLE_OF_STATUS[task.listed_status]}]{task.listed_status}[/]"),
        ("reason", visible(task.reason or "")),
        ("reason code", visible(task.reason_code or "")),
        ("due (UTC)", moment(task.run_at)),
        ("trigger", visible(str(task.trigger))),
        ("arguments", visible(msgspec.json.encode(task.args).decode())),
        ("attempts", str(task.attempt)),
        ("failures", counted(task)),
        ("last run", "" if task.last_run is None else f"{task.last_run.status} {moment(task.last_run.finished_at)}"),
        ("cancel", "requested" if task.cancel_requested else ""),
        ("result", "" if task.result is None else visible(msgspec.json.encode(task.result).decode())),
        ("error", visible(task.error or "", lines=True)),
        ("stored", visible(task.raw) if isinstance(task, UnreadableTask) else ""),
    ):
        if value:
            table.add_row(f"[dim]{name}[/]", value)
    console.print(table)
    history = Table("attempt", "for (UTC)", "started (UTC)", "took", "came to")
    for run in runs:
        begun = run.started_at
        took = "" if begun is None else f"{(run.finished_at - begun) / 1000:g} s"
        history.add_row(
            str(run.attempt),
            moment(run.occurrence_at),
            "" if begun is None else moment(begun),
            took,
            visible(run.reason or run.status),
        )
    if history.row_count:
        console.print(history)
