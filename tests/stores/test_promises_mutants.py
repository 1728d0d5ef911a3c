"""The reference model finds bugs: each of these is planted in the transitions, and a handful of examples shows it.

Those that take more examples are planted by `make fuzz` alone.
"""

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from msgspec.structs import replace

from tickwheel.clock import VirtualClock
from tickwheel.stores import Store
from tickwheel.stores.memory import MemoryStore
from tickwheel.tasks import transitions
from tickwheel.tasks.record import Status, Task
from tickwheel.tasks.transitions import Ended
from tickwheel.testing.stores.promises import check_against_reference

FUZZING = os.environ.get("HYPOTHESIS_PROFILE") == "fuzz"

# Without shrinking, and only until the first difference.
HANDFUL = settings(
    max_examples=1000 if FUZZING else 40,
    stateful_step_count=40,
    phases=[Phase.generate],
    report_multiple_bugs=False,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)

Right = Callable[..., Any]


def given(**fields: Any) -> Callable[[Right], Right]:
    """Let a function see a task otherwise than it is."""
    return lambda right: lambda task, *rest, **options: right(replace(task, **fields), *rest, **options)


def giving(change: Callable[[Task, Task], Task]) -> Callable[[Right], Right]:
    """Change what a function makes of a task."""

    def plant(right: Right) -> Right:
        def wrong(task: Task, *rest: Any, **options: Any) -> Any:
            made = right(task, *rest, **options)
            if isinstance(made, Ended):
                return made._replace(task=change(task, made.task))
            return made if made is task else change(task, made)

        return wrong

    return plant


def adding(when: Callable[[Task, str], bool], instead: Callable[[Task, Task, str, Right], Any]) -> Any:
    """Do something else than to add, where a task is there."""

    def plant(right: Right) -> Right:
        def wrong(there: Task | None, new: Task, how: str) -> Any:
            if there is not None and when(there, how):
                return instead(there, new, how, right)
            return right(there, new, how)

        return wrong

    return plant


def concluding(change: Callable[[Task, Task], tuple[Task, Task]]) -> Callable[[Right], Right]:
    """Let an outcome be merged with a task as it is not."""
    return lambda right: lambda run, wanted, now, rows, **how: right(*change(run, wanted), now, rows, **how)


def unpaused(there: Task, new: Task, how: str, right: Right) -> Any:
    task, added = right(there, new, how)
    return replace(task, paused=False), added


MUTANTS: dict[str, tuple[str, Callable[[Right], Right]]] = {
    "a pause during a run is lost": ("conclude", concluding(lambda run, end: (replace(run, paused=False), end))),
    "a cancel during a run is lost": (
        "conclude",
        concluding(lambda run, end: (replace(run, cancel_requested=False), end)),
    ),
    "an update during a run is lost": ("conclude", concluding(lambda run, end: (replace(run, following=None), end))),
    "skipped occurrences are not remembered": (
        "conclude",
        lambda right: lambda *run, **how: (right(*run, **how)[0], ()),
    ),
    "an outcome is written twice": (
        "may_finish",
        lambda _: lambda there, wanted, _: there.attempt == wanted.attempt,
    ),
    "run_now moves the grid": ("run_now", giving(lambda _, made: replace(made, next_at=None))),
    "run_now resumes": ("run_now", giving(lambda _, made: replace(made, paused=False))),
    "run_now is made twice": ("run_now", given(run_now_requested=False)),
    "reschedule moves the grid": ("reschedule", giving(lambda _, made: replace(made, grid_at=None))),
    "reschedule resumes": ("reschedule", giving(lambda _, made: replace(made, paused=False))),
    "pause keeps a run_now": (
        "pause",
        giving(lambda task, made: replace(made, run_now_requested=task.run_now_requested)),
    ),
    "resume makes up for what was missed": (
        "resume",
        lambda right: lambda task, now, **_: right(task, now, run_missed=True),
    ),
    "the whole series is cancelled with a run": (
        "cancel",
        lambda right: lambda task, reason, now, **_: right(task, reason, now),
    ),
    "retry does nothing to what completed": (
        "retry",
        lambda right: lambda task, now: task if task.status is Status.COMPLETED else right(task, now),
    ),
    "a completed id is free at once": (
        "add",
        adding(lambda there, _: there.status is Status.COMPLETED, lambda _, new, how, right: right(None, new, how)),
    ),
    "a failed id is not free": (
        "add",
        adding(lambda there, _: there.status is Status.FAILED, lambda there, *_: (there, False)),
    ),
    "debounce drops the flag": ("add", adding(lambda _, how: how == "debounce", unpaused)),
    "keep replaces": (
        "add",
        adding(lambda _, how: how == "keep", lambda there, new, _, right: right(there, new, "replace")),
    ),
    "a snooze counts as a failure": ("snooze", giving(lambda task, made: replace(made, failures=task.failures + 1))),
    "a crash is not counted": ("crash", giving(lambda task, made: replace(made, crashes=task.crashes))),
    "a crash is forgiven to what runs at most once": ("crash", given(at_most_once=False)),
    "a failure is retried of what runs at most once": ("snooze", given(at_most_once=False)),
    "a stop is a crash": ("interrupt", lambda _: lambda task, now: transitions.crash(task, now, 0.0)),
    "a failure for good is retried": (
        "fail_for_good",
        lambda _: lambda task, error, _, now: transitions.fail(task, error, now, 0.0),
    ),
    "queue_one skips": ("succeed", given(overlap="skip")),
    "skip queues one": ("succeed", given(overlap="queue_one")),
    "a series never ends": ("succeed", given(times=-1)),
    "what has expired runs": ("begin", given(expires_at=None)),
    "missed runs are not skipped": ("begin", lambda right: lambda task, now, _=0: right(task, now)),
    "run_all runs once": (
        "begin",
        lambda right: lambda task, *rest: right(replace(task, late=replace(task.late, mode="run_once")), *rest),
    ),
    "a task begins early": ("may_claim", lambda right: lambda task, until: right(task, until + 20)),
    "a paused task begins": (
        "may_claim",
        lambda _: lambda task, until: task.status is Status.PENDING and task.run_at <= until,
    ),
    "a release counts as a run": ("release", giving(lambda task, made: replace(made, runs=task.runs + 1))),
}

RARE = {
    "a pause during a run is lost",
    "a cancel during a run is lost",
    "an update during a run is lost",
    "run_now resumes",
    "run_now is made twice",
    "reschedule resumes",
    "pause keeps a run_now",
    "resume makes up for what was missed",
    "retry does nothing to what completed",
    "a completed id is free at once",
    "debounce drops the flag",
    "a crash is not counted",
    "a failure is retried of what runs at most once",
    "a task begins early",
    "a release counts as a run",
}


@asynccontextmanager
async def fresh(clock: VirtualClock) -> AsyncIterator[Store]:
    yield MemoryStore(now_ms=lambda: clock.time_ns() // 1_000_000, partitions=8)


@pytest.mark.parametrize("mutant", [mutant for mutant in MUTANTS if FUZZING or mutant not in RARE])
def test_the_model_finds(mutant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, plant = MUTANTS[mutant]
    monkeypatch.setattr(transitions, name, plant(getattr(transitions, name)))
    with pytest.raises(AssertionError):
        check_against_reference(fresh, settings=HANDFUL)
