"""Django's tasks on tickwheel: enqueued in one process, run by another, and looked up by id."""

import signal
from pathlib import Path

from tests.examples.commands import EXAMPLES, PATIENCE_S, run, started
from tickwheel import Scheduler
from tickwheel.tasks import Status

MANAGE = EXAMPLES / "django_shop" / "manage.py"

# What Django asks of a backend, asked in a process that has Django's settings.
QUESTIONS = """
from datetime import timedelta
from django.utils.timezone import now
from django_tasks import TaskResultStatus, default_task_backend as backend
from django_tasks.exceptions import InvalidTaskError, TaskResultDoesNotExist, TaskResultMismatch
from shop.backend import HANDLER, front
from shop.tasks import cancel_order, charge

def refused(kind, function, *args, **kwargs):
    try:
        function(*args, **kwargs)
    except kind:
        return True
    return False

later = (now() + timedelta(days=30)).replace(microsecond=5000)
result = cancel_order.using(run_after=later, priority=-7, queue_name="slow").enqueue(order=7)
found = cancel_order.get_result(result.id)
assert found == result, (found, result)
assert (found.status, found.kwargs, found.args) == (TaskResultStatus.READY, {"order": 7}, [])
assert (found.task.run_after, found.task.priority, found.task.queue_name) == (later, -7, "slow")
assert charge.get_result(charge.enqueue(1).id).task.run_after is None
assert refused(TaskResultMismatch, charge.get_result, result.id)
assert refused(TaskResultDoesNotExist, backend.get_result, "nobody")

scheduler = front(backend.options["store"])
before = scheduler.counts()
assert refused(TypeError, cancel_order.enqueue, object())
assert refused(InvalidTaskError, cancel_order.using, priority=101)
assert scheduler.counts() == before, "what was refused changed nothing"

foreign = scheduler.add("another.program", {})
assert refused(TaskResultDoesNotExist, backend.get_result, foreign.id)
scheduler.add(HANDLER, {"task": "os.getcwd", "args": [], "kwargs": {}}, id="evil")
print("all answered")
"""


def test_tasks_are_enqueued_and_run_by_a_worker(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/tasks.db"
    asked = run("python", MANAGE, "shell", "--no-imports", "--command", QUESTIONS, TASKS=store)
    assert asked == "all answered\n"
    with started("python", MANAGE, "run_tasks", TASKS=store) as worker:
        try:
            assert worker.stdout is not None
            assert worker.stdout.readline() == "at work\n"
            sold = run("python", MANAGE, "sell", TASKS=store).splitlines()
            worker.send_signal(signal.SIGTERM)
            assert worker.wait(PATIENCE_S) == 0
        finally:
            worker.kill()
    assert len(sold) == 3
    assert "\n".join(f"    {line}" for line in sold) in (EXAMPLES / "README.md").read_text()

    with Scheduler(store, run=False) as scheduler:
        completed = scheduler.list(status=Status.COMPLETED).tasks
        cancelled = [task for task in completed if task.args["task"] == "shop.tasks.cancel_order"]
        assert [task.result for task in cancelled] == ["order 7 is cancelled"]
        assert all((task.started_at or 0) >= task.occurrence_at for task in cancelled), "never early"
        evil = scheduler.get("evil")
        assert "os.getcwd is not a task" in str(evil.error)
        assert evil.result is None
