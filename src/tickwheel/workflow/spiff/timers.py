"""The timers of a process: which ones wait, and when each is due, to the millisecond.

SpiffWorkflow keeps what a timer waits for with its task, in three forms:

    duration    the text of the moment it is due, computed when the task was reached
    date        what its expression gave: text, too, but in the author's words
    cycle       how often it is still due, when next, and how long in between

A timer of SpiffWorkflow fires strictly after its moment, which is in microseconds: it is due for us in the next whole
millisecond. Everything here that cannot be relied on is an error with words, before it is saved.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from SpiffWorkflow.bpmn.specs.event_definitions.multiple import MultipleEventDefinition
from SpiffWorkflow.bpmn.specs.event_definitions.timer import (
    CycleTimerEventDefinition,
    TimeDateEventDefinition,
    TimerEventDefinition,
)
from SpiffWorkflow.util.task import TaskState

from tickwheel.errors import InvalidProcess

__all__ = ["NEXT_ROUND", "check_interval", "check_value", "due_of", "skip_missed", "timers_in", "waiting_timers"]

NEXT_ROUND: Final = 0  # when a cycle is due that only has to be told that it is over
CYCLE_S_LEAST: Final = 1.0  # a process is not a metronome; shorter ones cannot keep up with their own saves
CATCH_UP_MAX: Final = 100  # missed firings of a cycle that are made up for, as tickwheel does for its own tasks
EPOCH: Final = datetime.fromtimestamp(0, UTC)
DATE_WITH_OFFSET: Final = re.compile(r"[\d-]+W?[\d-]*T[\d:.,]+(Z|[+-]\d\d(:?\d\d)?)", re.IGNORECASE)


def timers_in(definition: Any) -> list[Any]:
    """Return the timers among what a node waits for."""
    inner = definition.event_definitions if isinstance(definition, MultipleEventDefinition) else [definition]
    return [each for each in inner if isinstance(each, TimerEventDefinition)]


def waiting_timers(workflow: Any) -> Iterator[tuple[Any, Any]]:
    """List the tasks that wait for a timer, each with its timer, in sub-processes and called ones as well."""
    for task in list(workflow.event_manager.tasks.values()):
        if task.has_state(TaskState.WAITING):
            for timer in timers_in(task.task_spec.event_definition):
                yield task, timer


def due_of(task: Any, timer: Any) -> int:
    """Return when a waiting timer is due, in milliseconds since 1970."""
    value = task.internal_data.get("event_value")
    if value is None:
        raise InvalidProcess(
            f"timer {timer.name!r} waits for nothing: its expression {timer.expression!r} gave no time"
        )
    if isinstance(timer, CycleTimerEventDefinition):
        check_interval(timer, value["duration"])
        return _after(datetime.fromisoformat(value["next"])) if value["cycles"] else NEXT_ROUND
    check_value(timer, value)
    return _after(TimerEventDefinition.parse_time_or_duration(value))


def skip_missed(task: Any, timer: Any, now: int) -> None:
    """Let a cycle that has missed very many firings make up for the latest of them only."""
    value = task.internal_data.get("event_value")
    if not isinstance(timer, CycleTimerEventDefinition) or value is None or value["cycles"] == 0:
        return
    check_interval(timer, value["duration"])
    following = datetime.fromisoformat(value["next"])
    missed = (now - _after(following)) // int(value["duration"] * 1000) + 1
    skipped = (missed if value["cycles"] < 0 else min(missed, value["cycles"])) - CATCH_UP_MAX
    if skipped > 0:
        value["next"] = (following + skipped * timedelta(seconds=value["duration"])).isoformat()
        value["cycles"] -= skipped


def check_interval(timer: Any, interval_s: float) -> None:
    """Refuse a cycle that comes too often."""
    if interval_s < CYCLE_S_LEAST:
        raise InvalidProcess(f"timer {timer.name!r} comes every {interval_s:g} s; every second is the most")


def check_value(timer: Any, value: Any) -> None:
    """Refuse what a timer's expression gave if it says a time without saying where on earth.

    SpiffWorkflow would take it for a time here, by the offset of the day on which the program was started.
    """
    dates = [value] if isinstance(timer, TimeDateEventDefinition) else []
    if isinstance(timer, CycleTimerEventDefinition) and isinstance(value, str):
        dates = [part for part in value.replace("--", "/").split("/")[1:] if not part.upper().startswith("P")]
    for date in dates:
        if not isinstance(date, str) or not DATE_WITH_OFFSET.fullmatch(date.strip()):
            raise InvalidProcess(
                f"timer {timer.name!r} is due at {date!r}, which is no moment: write a date and time with an offset, "
                "such as 2027-01-31T09:00:00+01:00"
            )


def _after(moment: datetime) -> int:
    """Return the first whole millisecond that is strictly after a moment."""
    return (moment - EPOCH) // timedelta(milliseconds=1) + 1
