"""A backend for Django's tasks: `enqueue` adds a task to tickwheel, and `manage.py run_tasks` runs what is due.

It is written for the package django-tasks; Django 6 has the same built in, as `django.tasks` instead of `django_tasks`.

At least once: what was enqueued is in the store and runs though processes die; what ran when its worker died runs
again. An enqueue is no part of the transaction around it: `transaction.on_commit(partial(task.enqueue, 7))` waits for
its end. A worker runs tasks of all queues; the queue of each is kept with it.
"""

from __future__ import annotations  # tasks of Django 6 have type parameters for type checkers alone

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from typing import Any, ParamSpec, TypeVar

from django.db import close_old_connections
from django.utils.module_loading import import_string
from django.utils.timezone import is_naive, make_aware
from django_tasks import TaskContext, TaskResult, TaskResultStatus
from django_tasks.backends.base import BaseTaskBackend
from django_tasks.base import Task, TaskError
from django_tasks.exceptions import TaskResultDoesNotExist
from django_tasks.signals import task_enqueued, task_finished, task_started

import tickwheel
from tickwheel.errors import UnknownTask
from tickwheel.tasks import Run, RunStatus, Status
from tickwheel.tasks import Task as Record

P = ParamSpec("P")
T = TypeVar("T")

HANDLER = "django.task"  # one for all: which task it is, is among its arguments
STATUSES = {
    Status.PENDING: TaskResultStatus.READY,
    Status.PAUSED: TaskResultStatus.READY,
    Status.RUNNING: TaskResultStatus.RUNNING,
    Status.COMPLETED: TaskResultStatus.SUCCESSFUL,
    Status.FAILED: TaskResultStatus.FAILED,
    Status.CANCELLED: TaskResultStatus.FAILED,
}


@cache
def front(store: str) -> tickwheel.Scheduler:
    """Return the one scheduler of this process that adds and looks: Django makes a backend for each thread."""
    return tickwheel.Scheduler(store, run=False).start()


class TickwheelBackend(BaseTaskBackend):
    """Django's tasks in a store of tickwheel. OPTIONS: `store`, and `retry`, a `RetryPolicy`."""

    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def enqueue(self, task: Task[P, T], args: Any, kwargs: Any) -> TaskResult[T]:
        """Add a task; it is durable when this returns."""
        self.validate_task(task)
        wishes: dict[str, Any] = {"priority": task.priority, "meta": {"queue": task.queue_name}}
        if task.run_after is not None:
            wishes["at"] = make_aware(task.run_after) if is_naive(task.run_after) else task.run_after
        if "retry" in self.options:
            wishes["retry"] = self.options["retry"]
        call = json.loads(json.dumps({"task": task.module_path, "args": args, "kwargs": kwargs}))
        result = self.result_of(task, front(self.options["store"]).add(HANDLER, call, **wishes), [])
        task_enqueued.send(type(self), task_result=result)
        return result

    def get_result(self, result_id: str) -> TaskResult[Any]:
        """Return how a task stands."""
        scheduler = front(self.options["store"])
        try:
            record = scheduler.get(result_id)
        except UnknownTask:
            raise TaskResultDoesNotExist(result_id) from None
        if record.handler != HANDLER:
            raise TaskResultDoesNotExist(result_id)
        task = self.task_of(record.args["task"]).using(
            priority=record.priority,
            queue_name=record.meta["queue"],
            run_after=None if record.occurrence_at == record.created_at else moment(record.occurrence_at),
            backend=self.alias,
        )
        return self.result_of(task, record, scheduler.history(result_id))

    @staticmethod
    def task_of(path: str) -> Task[Any, Any]:
        """Find a task by its name, and nothing else: names come from a store."""
        task = import_string(path)
        if not isinstance(task, Task):
            raise TypeError(f"{path} is not a task")
        return task

    def result_of(self, task: Task[P, T], record: Record, runs: Sequence[Run]) -> TaskResult[T]:
        """Tell in Django's words what is known of a task; of its runs the latest comes first."""
        result: TaskResult[T] = TaskResult(
            task=task,
            id=record.id,
            status=STATUSES[record.status],
            enqueued_at=moment(record.created_at),
            started_at=moment(runs[-1].started_at if runs else record.started_at),
            finished_at=moment(record.finished_at),
            last_attempted_at=moment(record.started_at),
            args=record.args["args"],
            kwargs=record.args["kwargs"],
            backend=self.alias,
            errors=[error_of(run) for run in reversed(runs) if run.status is not RunStatus.COMPLETED],
            worker_ids=["tickwheel"] * record.attempt,  # attempts are counted; who made each is not kept
        )
        object.__setattr__(result, "_return_value", record.result)  # as the backends of Django do
        return result

    # -- in the worker

    def worker(self) -> tickwheel.Scheduler:
        """Return a scheduler that runs what is due, while it is started."""
        scheduler = tickwheel.Scheduler(self.options["store"])
        scheduler.task(HANDLER)(self.run)
        return scheduler

    def run(self, task: str, args: list[Any], kwargs: dict[str, Any], context: tickwheel.TaskContext) -> Any:
        """Call a task's function, on a thread, with connections to the database as a request has them."""
        found, result = self.task_of(task), self.get_result(context.id)
        task_started.send(type(self), task_result=result)
        close_old_connections()
        try:
            told = [TaskContext(task_result=result)] if found.takes_context else []
            value = json.loads(json.dumps(found.call(*told, *args, **kwargs)))
        except BaseException as error:
            error.add_note(f"{type(error).__module__}.{type(error).__qualname__}")  # ends its trace, for error_of
            task_finished.send(type(self), task_result=replace(result, status=TaskResultStatus.FAILED))
            raise
        finally:
            close_old_connections()
        task_finished.send(type(self), task_result=replace(result, status=TaskResultStatus.SUCCESSFUL))
        return value


def moment(ms: int | None) -> datetime | None:
    """Return a moment as Django has them."""
    return None if ms is None else datetime.fromtimestamp(ms / 1000, UTC)


def error_of(run: Run) -> TaskError:
    """Return what a run raised; one whose worker died raised nothing, and has a reason."""
    if run.error is None:
        return TaskError(exception_class_path="tickwheel.errors.RunFailed", traceback=str(run.reason))
    path = run.error.rstrip().rpartition("\n")[2].partition(":")[0]
    return TaskError(exception_class_path=path, traceback=run.error)
