"""BPMN processes in a program that knows nothing of asyncio."""

import threading
from pathlib import Path

import pytest

from tests.workflow.on_a_store import APPROVE
from tickwheel.errors import SchedulerNotStarted, StoreUnavailable
from tickwheel.scheduler import Scheduler
from tickwheel.workflow import TimeoutRule
from tickwheel.workflow.spiff import SpiffEngine


def test_an_engine_is_used_through_a_blocking_scheduler(tmp_path: Path) -> None:
    (tmp_path / "approve.bpmn").write_text(APPROVE)
    scheduler = Scheduler(f"sqlite:///{tmp_path}/tasks.db")
    done = threading.Event()
    scheduler.events.listen(lambda event: done.set() if event.kind == "completed" else None)
    rules = {"approve": TimeoutRule("0.1s", "auto", variables={"approved": False})}
    engine = SpiffEngine(f"sqlite:///{tmp_path}/processes.db", scheduler.inner, rules=rules)
    with scheduler:
        scheduler.run(engine.open())
        assert scheduler.run(engine.deploy(tmp_path / "approve.bpmn")) == ["approve_it"]
        instance = scheduler.run(engine.start("approve_it", {"limit": "P1D"}))
        assert done.wait(60)
        assert scheduler.run(engine.get(instance)).data["approved"] is False
        scheduler.run(engine.close())


def test_what_cannot_be_started_is_told_and_leaves_nothing_behind(tmp_path: Path) -> None:
    scheduler = Scheduler(f"sqlite:///{tmp_path}/nowhere/tasks.db")
    with pytest.raises(StoreUnavailable, match="no folder"):
        scheduler.start()
    with pytest.raises(SchedulerNotStarted):
        scheduler.counts()  # a coroutine that is never awaited would be a warning, and an error here
