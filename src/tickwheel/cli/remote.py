"""The verbs of a scheduler, done by a server: what `--url` puts in the place of a store.

    with RemoteScheduler("http://127.0.0.1:8765", token=None) as scheduler:
        scheduler.add("orders.cancel", {"order_id": 7}, delay="30d")

Tasks come back as the records they are, so that every command shows them alike, wherever they are.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, Self
from urllib.parse import quote

from tickwheel.cli.client import Server
from tickwheel.stores.contract import Lease, Page
from tickwheel.tasks import Cron, Every, LatePolicy, RetryPolicy, Run, RunStatus, Status, Task, Trigger, UnreadableTask
from tickwheel.tasks.record import LastRun
from tickwheel.tasks.triggers import ONCE

__all__ = ["RemoteScheduler", "run_of", "task_of"]

EPOCH: Final = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


class RemoteScheduler:
    """A server that has the tasks."""

    def __init__(self, url: str, token: str | None = None) -> None:
        self.server = Server(url, token)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.server.close()

    def add(self, handler: str, args: Mapping[str, Any], *, on_conflict: str = "reject", **wishes: Any) -> Task:
        """Add a task; it is durable when this returns."""
        body = {"handler": handler, "args": args, "on_conflict": on_conflict, **wishes}
        return task_of(self.server.post("/v1/tasks", written(body))["task"])

    def get(self, task_id: str) -> Task:
        """Return a task."""
        return task_of(self.server.get(place(task_id)))

    def list(self, *, handler: str | None = None, **wanted: Any) -> Page:
        """List tasks, page by page."""
        page = self.server.get("/v1/tasks", name=handler, **wanted)
        return Page(tasks=[task_of(shape) for shape in page["tasks"]], cursor=page["cursor"])

    def history(self, task_id: str, limit: int = 100) -> Sequence[Run]:
        """Return the runs of a task, latest first."""
        return [run_of(task_id, shape) for shape in self.server.get(f"{place(task_id)}/runs", limit=limit)["runs"]]

    def counts(self) -> dict[Status, int]:
        """Count the tasks of each status."""
        return {Status(status): count for status, count in self.server.get("/v1/stats")["counts"].items()}

    def time(self) -> int:
        """Read the server's clock."""
        return since_1970(self.server.get("/v1/wheels")["now"])

    def leases(self) -> Sequence[Lease]:
        """List who runs the tasks of which partition."""
        return [
            Lease(
                partition=shape["partition"],
                node=shape["node"],
                epoch=shape["epoch"],
                nonce="",
                expires_at=None if shape["expires"] is None else since_1970(shape["expires"]),
            )
            for shape in self.server.get("/v1/cluster")["partitions"]
        ]

    def handler_names(self) -> set[str]:
        """Return the names of the handlers that the server knows."""
        return {handler["name"] for handler in self.server.get("/v1/handlers")["handlers"]}

    def cancel(self, task_id: str, reason: str, *, run_only: bool = False) -> Task:
        """Cancel a task."""
        return task_of(self.server.post(f"{place(task_id)}:cancel", {"reason": reason, "run_only": run_only}))

    def pause(self, task_id: str) -> Task:
        """Keep a task from beginning."""
        return task_of(self.server.post(f"{place(task_id)}:pause"))

    def resume(self, task_id: str, *, run_missed: bool = False) -> Task:
        """Let a paused task begin again."""
        return task_of(self.server.post(f"{place(task_id)}:resume", {"run_missed": run_missed}))

    def run_now(self, task_id: str) -> Task:
        """Run a task that waits now."""
        return task_of(self.server.post(f"{place(task_id)}:run"))

    def reschedule(self, task_id: str, **when: Any) -> Task:
        """Move a task that waits."""
        return task_of(self.server.patch(place(task_id), written(when)))

    def retry(self, task_id: str) -> Task:
        """Let a task that is over run again."""
        return task_of(self.server.post(f"{place(task_id)}:retry"))

    def operate(self, action: str, wanted: Mapping[str, Any], *, dry_run: bool) -> Iterator[dict[str, Any]]:
        """Do the same to all tasks that fit, and tell how far it is until it is done."""
        body = {"action": action, "filter": written(dict(wanted)), "dry_run": dry_run}
        operation = self.server.post("/v1/operations", body)
        yield operation
        while operation["state"] == "running":
            operation = self.server.get(f"/v1/operations/{operation['id']}")
            yield operation


def place(task_id: str) -> str:
    """Return where a task is found."""
    return f"/v1/tasks/{quote(task_id, safe='')}"


def written(body: dict[str, Any]) -> dict[str, Any]:
    """Write a body: without what was not said, and with times as text."""
    return {
        name: value.isoformat() if isinstance(value, datetime) else value
        for name, value in body.items()
        if value is not None
    }


def task_of(shape: dict[str, Any]) -> Task:
    """Read a task."""
    same = (
        "id", "args", "meta", "tags", "priority", "times", "at_most_once", "attempt", "failures", "runs", "version",
        "paused", "crashes", "snoozes", "consecutive_failures", "overlap", "max_crashes",
        "cancel_requested", "result", "error", "reason", "reason_code",
    )  # fmt: skip
    retry, late, last = shape["retry"], shape["late"], shape["last_run"]
    kind: type[Task] = Task
    unread: dict[str, Any] = {}
    if "raw" in shape:
        kind, unread = UnreadableTask, {"raw": shape["raw"], "why": shape["reason"].removeprefix("unreadable: ")}
    return kind(
        handler=shape["name"],
        trigger=trigger_of(shape["trigger"]),
        retry=RetryPolicy(
            retries=retry["retries"],
            first_ms=ms(retry["first"]),
            factor=retry["factor"],
            cap_ms=ms(retry["cap"]),
            jitter=retry["jitter"],
            age_ms=None if retry["age"] is None else ms(retry["age"]),
        ),
        late=LatePolicy(mode=late["mode"], grace_ms=ms(late["grace"]), catch_up=late["catch_up"]),
        timeout_ms=ms(shape["timeout"]),
        status=Status(shape["status"]),
        run_at=since_1970(shape["due"]),
        occurrence_at=since_1970(shape["occurrence"]),
        created_at=since_1970(shape["created"]),
        started_at=None if shape["started"] is None else since_1970(shape["started"]),
        finished_at=None if shape["finished"] is None else since_1970(shape["finished"]),
        expires_at=None if shape["expires"] is None else since_1970(shape["expires"]),
        last_run=None if last is None else last_run_of(last),
        **{name: shape[name] for name in same},
        **unread,
    )


def trigger_of(shape: dict[str, Any]) -> Trigger:
    """Read when a task comes."""
    if shape["type"] == "every":
        return Every(interval_ms=ms(shape["interval"]))
    return Cron(expression=shape["expression"], tz=shape["tz"]) if shape["type"] == "cron" else ONCE


def last_run_of(shape: dict[str, Any]) -> LastRun:
    """Read the last run of a recurring task."""
    return LastRun(
        status=RunStatus(shape["status"]),
        attempt=shape["attempt"],
        started_at=None if shape["started"] is None else since_1970(shape["started"]),
        finished_at=since_1970(shape["finished"]),
    )


def run_of(task_id: str, shape: dict[str, Any]) -> Run:
    """Read a run."""
    return Run(
        task_id=task_id,
        attempt=shape["attempt"],
        occurrence_at=since_1970(shape["occurrence"]),
        started_at=None if shape["started"] is None else since_1970(shape["started"]),
        finished_at=since_1970(shape["finished"]),
        status=RunStatus(shape["status"]),
        error=shape["error"],
        reason=shape["reason"],
        due_at=since_1970(shape["due"]),
        node=shape["worker"],
    )


def ms(seconds: float) -> int:
    """Read a duration."""
    return round(seconds * 1000)


def since_1970(moment: str) -> int:
    """Read a moment."""
    return (datetime.fromisoformat(moment) - EPOCH) // timedelta(milliseconds=1)
