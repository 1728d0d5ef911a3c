"""`tickwheel doctor`: how things are, what is wrong, and what to do about it. Nothing is changed.

It ends with exit code 1 if something is wrong, so that a script can ask.
"""

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from tickwheel.cli import output
from tickwheel.cli.commands import app, console, find_scheduler, now_ms, plainly
from tickwheel.cli.places import DEFAULT_STORE, JsonOption, StoreOption, TokenOption, UrlOption, opened
from tickwheel.scheduler import AsyncScheduler, Scheduler
from tickwheel.stores.contract import PAGE_MAX
from tickwheel.tasks import Status, Task, UnreadableTask
from tickwheel.tasks.explain import Around, explain, is_due

if TYPE_CHECKING:
    from tickwheel.cli.remote import RemoteScheduler

__all__: list[str] = []

OVERDUE_MS = 60_000  # what a busy worker may be late without anybody worrying
SKEW_MS = 1_000  # by which two clocks may differ; leases and due times are told by both
LOOKED_AT_MAX = 10_000  # tasks of each status that are read to see whether they can be: a second or so
NAMED = 3  # tasks, or handlers, that are named


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was looked at."""

    check: str
    fine: bool
    says: str
    advice: str = ""


@app.command()
@plainly
def doctor(
    task_id: Annotated[str | None, typer.Argument(help="A task that is asked about: why has it not run?")] = None,
    *,
    target: Annotated[
        str | None, typer.Option("--app", help="Whose handlers should know the tasks: module:name")
    ] = None,
    store: StoreOption = DEFAULT_STORE,
    url: UrlOption = None,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say what is wrong and what to do: store, clocks, workers, overdue tasks, missing handlers, failures."""
    place = url or store
    with opened(store, url, token) as scheduler:
        counts = scheduler.counts()
        known = handlers_of(target, scheduler)
        findings = list(look(scheduler, counts, known, place))
        reason = None if task_id is None else reason_of(scheduler.get(task_id), known)
    wrong = [finding for finding in findings if not finding.fine]
    if as_json:
        advice = [finding.advice for finding in wrong]
        output.print_json({"store": place, "counts": counts, "reason": reason, "findings": findings, "advice": advice})
    else:
        for finding in findings:
            mark = "[green]ok[/]   " if finding.fine else "[yellow]wrong[/]"
            console.print(f"{mark} {output.visible(f'{finding.check}: {finding.says}')}", highlight=False)
            if finding.advice:
                console.print(f"      {output.visible(finding.advice)}", style="yellow", highlight=False)
        if reason is not None:
            console.print(output.visible(f"{task_id}: {reason}"), highlight=False)
        if not wrong:
            console.print("nothing is wrong", style="green")
    if wrong:
        raise typer.Exit(1)


def handlers_of(target: str | None, scheduler: "Scheduler | RemoteScheduler") -> set[str] | None:
    """Return the names of handlers that somebody has; None if nobody was asked."""
    if target is None:
        return scheduler.handler_names() or None
    found = find_scheduler(target)
    inner: AsyncScheduler = found.inner if isinstance(found, Scheduler) else found
    return {handler.name for handler in inner.handlers()}


def reason_of(task: Task, known: set[str] | None) -> str:
    """Say why a task has not run, or what became of it."""
    if known is not None and task.handler not in known and task.queue is None and is_due(task, now_ms()):
        task = explain(task, Around(now=now_ms(), handlers=known))
    return task.reason or f"it is {task.listed_status}"


def look(
    scheduler: "Scheduler | RemoteScheduler", counts: dict[Status, int], known: set[str] | None, place: str
) -> Iterator[Finding]:
    """Look at one thing after the other."""
    tasks = sum(counts.values())
    yield Finding(check="store", fine=True, says=f"{place} answers, has {tasks:,} tasks, and this version can read it")
    yield clocks(scheduler)
    yield workers(scheduler, counts)
    yield from responses(scheduler)
    waiting = scheduler.list(status=Status.PENDING, order="due", limit=PAGE_MAX).tasks
    yield overdue([task for task in waiting if task.run_at < now_ms() - OVERDUE_MS and task.queue is None])
    if known is not None:
        yield handlers([task for task in waiting if task.queue is None and task.handler not in known])
    yield unreadable(scheduler)
    yield failures(counts)


def unreadable(scheduler: "Scheduler | RemoteScheduler") -> Finding:
    """Count the tasks whose data cannot be read, among those that are still to run."""
    looked_at, found = 0, []
    for status in (Status.PENDING, Status.RUNNING, Status.PAUSED):
        cursor: str | None = None
        for _ in range(LOOKED_AT_MAX // PAGE_MAX):
            page = scheduler.list(status=status, cursor=cursor, limit=PAGE_MAX)
            looked_at += len(page.tasks)
            found += [task.id for task in page.tasks if isinstance(task, UnreadableTask)]
            cursor = page.cursor
            if cursor is None:
                break
    if not found:
        return Finding(check="data", fine=True, says=f"the data of {looked_at:,} tasks that are to run can be read")
    names = ", ".join(map(repr, found[:NAMED]))
    return Finding(
        check="data",
        fine=False,
        says=f"{len(found):,} of {looked_at:,} tasks cannot be read: {names}{', …' if len(found) > NAMED else ''}",
        advice="`tickwheel show ID` prints what is stored: upgrade tickwheel if a newer version wrote it, or delete it",
    )


def clocks(scheduler: "Scheduler | RemoteScheduler") -> Finding:
    """Compare the store's clock with this machine's; what asking takes is not held against it."""
    before = now_ms()
    theirs = scheduler.time()
    skew_ms = max(before - theirs, theirs - now_ms(), 0)
    which = "behind" if theirs < before else "ahead of"
    if skew_ms <= SKEW_MS:
        return Finding(check="clock", fine=True, says="this machine and the store agree on the time")
    return Finding(
        check="clock",
        fine=False,
        says=f"the store's clock is {skew_ms / 1000:,.1f} s {which} this machine's",
        advice="set the clocks (NTP): tasks that are added here are due that much too early or too late",
    )


def workers(scheduler: "Scheduler | RemoteScheduler", counts: dict[Status, int]) -> Finding:
    """See whether somebody runs tasks."""
    held = Counter(lease.node for lease in scheduler.leases())
    if held:
        return Finding(
            check="workers", fine=True, says=f"{len(held)} of them run the tasks of {held.total()} partitions"
        )
    coming = counts.get(Status.PENDING, 0) + counts.get(Status.RUNNING, 0)
    return Finding(
        check="workers",
        fine=not coming,
        says="nobody runs tasks",
        advice=f"{coming:,} tasks wait: start `tickwheel worker module:scheduler` or `tickwheel serve`"
        if coming
        else "",
    )


def responses(scheduler: "Scheduler | RemoteScheduler") -> Iterator[Finding]:
    """See whether the nodes on an SQLite file respond: one that is suspended remains the owner of its partitions."""
    if not isinstance(scheduler, Scheduler):
        return
    for node, pid in scheduler.unresponsive_nodes():
        where = "" if pid is None else f" (pid {pid})"
        yield Finding(
            check="nodes",
            fine=False,
            says=f"node {node}{where} does not respond, and its tasks wait: its process is suspended or blocked",
            advice=f"let it go on (kill -CONT {pid or 'PID'}), or end it: others take over at once",
        )


def overdue(late: list[Task]) -> Finding:
    """See what should have run."""
    if not late:
        return Finding(check="overdue", fine=True, says="no task is overdue by more than a minute")
    names = ", ".join(repr(task.id) for task in late[:NAMED])
    reasons = {task.reason for task in late if task.reason}
    many = f"{len(late):,}{' or more' if len(late) == PAGE_MAX else ''}"
    return Finding(
        check="overdue",
        fine=False,
        says=f"{many} tasks are overdue by more than a minute: {names}{', …' if len(late) > NAMED else ''}",
        advice="; ".join(sorted(reasons)[:NAMED])
        or "is a worker running, and is it fast enough? `tickwheel top` shows it",
    )


def handlers(strange: list[Task]) -> Finding:
    """See what nobody knows how to run."""
    if not strange:
        return Finding(check="handlers", fine=True, says="every task that is due next has a handler")
    names = sorted({task.handler for task in strange})
    return Finding(
        check="handlers",
        fine=False,
        says=f"{len(strange):,} tasks that are due next have no handler: {', '.join(names[:NAMED])}",
        advice="is a module not imported, or was a handler renamed? The tasks wait until one of that name is there",
    )


def failures(counts: dict[Status, int]) -> Finding:
    """See what failed for good."""
    failed = counts.get(Status.FAILED, 0)
    if not failed:
        return Finding(check="failed", fine=True, says="no task has failed for good")
    return Finding(
        check="failed",
        fine=False,
        says=f"{failed:,} tasks have failed",
        advice="`tickwheel list --status failed` lists them, `show ID` tells why, and `retry ID` runs one again",
    )
