"""Where a recurring task goes on: its grid, and which occurrences are skipped on the way.

A grid does not drift, whatever becomes of single runs:

    grid              10        20        30        40          every 10 s
    reschedule(25)     '------------.
    runs                          25  30        40              25 stands for 10; the series goes on at the first
                                                                point that is later than both
    run_now at 13         13      20        30                  one more, and nothing is moved
    a run until 27        [=============]30                     20 came due meanwhile: it is skipped (`overlap="skip"`),
                          [=============][20]30                 or runs right after (`"queue_one"`)
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Final

from msgspec.structs import replace

from tickwheel.tasks.record import Following, Run, RunStatus, Status, Task
from tickwheel.tasks.triggers import Every, Once, Trigger

__all__ = [
    "FRESH",
    "STEP_MS",
    "anchor",
    "continue_series",
    "due_points",
    "end_task",
    "first_point_after",
    "grace_ms",
    "is_missed",
    "is_used_up",
    "point_used_up",
    "recent_points",
    "take_over",
]

STEP_MS: Final = 1_000  # a wall clock that changes by more than this was set, not corrected
SKIPPED_MAX: Final = 100  # history rows of skipped occurrences that one outcome writes: the latest ones
RECENT_MAX: Final = 16  # lists of times that are kept, of at most as many as a series makes up for: 10,000
PIECE: Final = 64  # times of a calendar that are read at once: what is read in vain when a gap of it is searched

# The latest times of calendars until some moment, for series that make up for missed runs; and since when they are all.
RECENT: Final[dict[tuple[Trigger, int, int], tuple[int, list[int]]]] = {}

# Where a series stands.
PLACE: Final = ("run_at", "occurrence_at", "grid_at", "next_at", "missed_until", "runs")

# What a new occurrence begins with.
FRESH: Final[dict[str, Any]] = {
    "failures": 0,
    "crashes": 0,
    "snoozes": 0,
    "interrupted": False,
    "next_at": None,
    "grid_at": None,
    "retry_at": None,
    "timed_at": None,
    "run_now_requested": False,
}


def anchor(task: Task) -> int:
    """Return a point of a task's grid: the latest one that is spoken for."""
    if task.grid_at is not None:
        return task.grid_at
    return task.occurrence_at if task.next_at is None else task.next_at


def first_point_after(task: Task, moment: int) -> int | None:
    """Return the first point of a task's grid after a moment; None if there is none."""
    if isinstance(task.trigger, Every):
        return last_point_until(task, task.trigger, moment) + task.trigger.interval_ms
    return task.trigger.next_after(moment)


def last_point_until(task: Task, trigger: Every, moment: int) -> int:
    """Return the last point of the grid of a series of `every` that is not after a moment."""
    return moment - (moment - anchor(task)) % trigger.interval_ms


def point_used_up(task: Task, moment: int) -> int | None:
    """Return the point that a run at a moment of its own stands for, so that those to come stay as they are."""
    return last_point_until(task, task.trigger, moment) if isinstance(task.trigger, Every) else None


def grace_ms(task: Task) -> int:
    """Return how late an occurrence may be before it counts as missed: never more than half the period."""
    if not task.is_recurring:
        return task.late.grace_ms
    if isinstance(task.trigger, Every):
        return min(task.late.grace_ms, task.trigger.interval_ms // 2)
    following = task.trigger.next_after(task.occurrence_at)
    return task.late.grace_ms if following is None else min(task.late.grace_ms, (following - task.occurrence_at) // 2)


def is_missed(task: Task, owned_since: int) -> bool:
    """Tell whether an occurrence came due while nobody could run it; what was asked for or tried before was not."""
    since = owned_since if task.missed_until is None else max(owned_since, task.missed_until)
    if task.occurrence_at >= since or task.has_begun or task.run_now_requested:
        return False
    return task.occurrence_at + grace_ms(task) < since


def recent_points(task: Task, first: int, until: int, limit: int) -> tuple[list[int], bool]:
    """Return the latest grid points from one to a moment, at most so many, and whether there are earlier ones."""
    if first > until:
        return [], False
    if isinstance(task.trigger, Every):
        interval_ms = task.trigger.interval_ms
        count = (until - first) // interval_ms + 1
        begin = first + max(count - limit, 0) * interval_ms
        return list(range(begin, until + 1, interval_ms)), count > limit
    points = _latest_points(task, first, until, limit + 1)
    return points[-limit:], len(points) > limit


def _latest_points(task: Task, first: int, until: int, wanted: int) -> list[int]:
    """Return the latest times of a calendar, so many at the least if there are as many.

    A series that makes up for thousands of runs asks for the same ones before each of them: they are read once.
    """
    key = (task.trigger, until, wanted)
    since, points = RECENT.get(key, (first + 1, []))
    if since > first:
        points = _read_latest_points(task, first, until, wanted)
        if len(points) > PIECE:
            while len(RECENT) >= RECENT_MAX:
                RECENT.pop(next(iter(RECENT)), None)
            RECENT[key] = first, points
    return points[bisect_left(points, first) :]


def _read_latest_points(task: Task, first: int, until: int, wanted: int) -> list[int]:
    """Read the latest times of a calendar, so many at the least if there are as many.

    It can only be read forward: read it in pieces, from the last one back. A piece that is (almost) empty is followed
    by a longer one, and one that turns out to be long is not read to its end, so that few more times are read than are
    wanted, however far back they are.
    """
    points: deque[int] = deque()
    window_ms, end = 1000 * PIECE, until + 1  # a calendar has no more than one time in a second
    while len(points) < wanted and end > first:
        begin = max(first, end - window_ms)
        piece = list(islice(_points(task, begin, end - 1), PIECE + 1))
        if len(piece) > PIECE:
            window_ms //= 2
            continue
        points.extendleft(reversed(piece))
        end = begin
        if len(piece) < PIECE // 4:  # not a half: it would be too long every other time
            window_ms *= 2
    return list(points)


def due_points(task: Task, first: int, until: int, limit: int) -> tuple[list[int], bool]:
    """Return the latest occurrences from a first one, maybe off the grid, to a moment; and whether there are more."""
    rest = first_point_after(task, max(first, anchor(task)))
    points, more = ([], False) if rest is None else recent_points(task, rest, until, limit)
    if more or len(points) == limit:
        return points, True
    return ([first, *points] if first <= until else []), False


def _points(task: Task, begin: int, until: int) -> Iterator[int]:
    moment = task.trigger.next_after(begin - 1)
    while moment is not None and moment <= until:
        yield moment
        moment = task.trigger.next_after(moment)


def continue_series(task: Task, status: Status, reason: str | None, now: int) -> tuple[Task, Sequence[Run]]:
    """End an occurrence: go on with the next one if there is one, or end the task with a status.

    Returns the history rows of occurrences that are skipped besides. Runs of run_now do not count.
    """
    if task.following is not None:
        return take_over(task, task.following, status, reason, now)
    if type(task.trigger) is Once:
        return end_task(task, status, task.runs + 1, reason, now), ()
    runs = task.runs + (task.next_at is None)
    coming = _coming(task, now)
    if isinstance(task.trigger, Every) and (task.missed_until or 0) > now + STEP_MS:
        task = replace(task, missed_until=None)  # the clock was set back since then
    if coming is None or is_used_up(task, runs):
        return end_task(task, status, runs, reason, now), []
    if coming > now or (task.late.mode == "run_all" and coming <= (task.missed_until or 0)):
        return _go_on(task, coming, runs, reason), []
    # The others came due while this one was active.
    points, more = due_points(task, coming, now, SKIPPED_MAX + 1)
    if task.overlap == "queue_one" and points[-1] > (task.missed_until or 0):
        following: int | None = points.pop()
    else:
        following = first_point_after(task, max(now, anchor(task)))  # a run that was moved stands for its point
    skipped = skip_rows(task, points[-SKIPPED_MAX:], more or len(points) > SKIPPED_MAX, now, "another run was active")
    if following is None:
        return end_task(task, status, runs, reason, now), skipped
    return _go_on(task, following, runs, reason), skipped


def _coming(task: Task, now: int) -> int | None:
    """Return when a series goes on; if the clock was set back during the run, `every` does so from now."""
    coming = first_point_after(task, max(task.occurrence_at, anchor(task))) if task.next_at is None else task.next_at
    if coming is None or not isinstance(task.trigger, Every) or task.occurrence_at <= now + STEP_MS:
        return coming
    if task.next_at is not None and task.grid_at is not None:
        return coming  # a moment that somebody asked for
    interval_ms = task.trigger.interval_ms
    regular = task.next_at is None or coming <= task.occurrence_at + interval_ms
    return first_point_after(task, now) if regular and coming > now + interval_ms else coming


def skip_rows(task: Task, points: list[int], more: bool, now: int, why: str) -> list[Run]:  # noqa: FBT001 - internal
    """Return the history rows of skipped occurrences; each counts as an attempt, by which rows are told apart."""
    rows = []
    for number, point in enumerate(points, 1):
        earlier = "; earlier ones were skipped as well" if more and number == 1 else ""
        rows.append(
            Run(
                task_id=task.id,
                attempt=task.attempt + number,
                occurrence_at=point,
                started_at=None,
                finished_at=now,
                status=RunStatus.SKIPPED,
                reason=f"skipped: {why}{earlier}",
                due_at=point,
            )
        )
    return rows


def _go_on(task: Task, coming: int, runs: int, reason: str | None) -> Task:
    """Wait for another occurrence; one that was rescheduled before a run_now still stands for its grid point."""
    grid_at = task.grid_at if task.next_at is not None and coming == task.next_at else None
    # Also of a run that was late itself: what was changed during it goes on from where it stood before.
    missed_until = task.missed_until if min(coming, task.occurrence_at) <= (task.missed_until or 0) else None
    fresh = {**FRESH, "grid_at": grid_at, "missed_until": missed_until}
    return replace(task, status=Status.PENDING, runs=runs, run_at=coming, occurrence_at=coming, reason=reason, **fresh)


def is_used_up(task: Task, runs: int) -> bool:
    """Tell whether a series has made all its runs; more than that, if `times` was lowered since."""
    return 0 < task.times <= runs


def end_task(task: Task, status: Status, runs: int, reason: str | None, now: int) -> Task:
    """End a task; what the occurrence came to stays to be seen, and so does the grid, for a retry by hand."""
    return replace(
        task,
        status=status,
        runs=runs,
        grid_at=None if type(task.trigger) is Once or anchor(task) == task.occurrence_at else anchor(task),
        next_at=None,
        retry_at=None,
        run_now_requested=False,
        missed_until=None,
        finished_at=now,
        reason=reason,
    )


def take_over(
    task: Task, following: Following, status: Status, reason: str | None, now: int
) -> tuple[Task, Sequence[Run]]:
    """Let what was asked for during a run take effect, now that its occurrence is over."""
    if following.how == "debounce":
        new = following.task
        fields = {
            "args": new.args,
            "run_at": new.run_at,
            "occurrence_at": new.occurrence_at,
            "expires_at": new.expires_at,
        }
        return replace(
            task, status=Status.PENDING, following=None, runs=0, finished_at=None, reason=None, **FRESH, **fields
        ), []
    new = replace(
        following.task,
        partition=task.partition,
        paused=task.paused,
        attempt=task.attempt,
        version=task.version,
        started_at=task.started_at,
    )
    if following.how == "replace":
        return new, []
    runs = task.runs + (task.next_at is None)
    new = replace(
        new,
        created_at=task.created_at,
        runs=runs,
        result=task.result,
        error=task.error,
        last_run=task.last_run,
        consecutive_failures=task.consecutive_failures,
        reason=reason,
    )
    if following.keeps_time or (new.occurrence_at == task.occurrence_at and new.trigger == task.trigger):
        return continue_series(replace(new, **{name: getattr(task, name) for name in PLACE}), status, reason, now)
    if is_used_up(new, runs):
        return end_task(new, status, runs, reason, now), []
    return replace(new, status=Status.PENDING, finished_at=None, **FRESH), []
