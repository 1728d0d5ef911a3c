"""The engine on a file."""

import threading
from pathlib import Path

import pytest

from tests.scheduler.on_a_store import OnAStore
from tickwheel.errors import StoreUnavailable, UnnamedHandler
from tickwheel.scheduler import Scheduler


class TestSqlite(OnAStore):
    @pytest.fixture
    def url(self, tmp_path: Path) -> str:
        return f"sqlite:///{tmp_path}/tasks.db"


def test_what_cannot_be_found_again_is_refused(tmp_path: Path) -> None:
    with Scheduler(f"sqlite:///{tmp_path}/tasks.db") as scheduler, pytest.raises(UnnamedHandler):
        scheduler.add(lambda: None)


def test_in_memory_any_callable_will_do() -> None:
    ran = threading.Event()

    def closure() -> None:
        ran.set()

    with Scheduler("memory://") as scheduler:
        scheduler.add(closure)
        assert ran.wait(60)


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable):
        Scheduler(f"sqlite:///{tmp_path}/nowhere/tasks.db").start()
