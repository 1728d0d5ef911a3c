"""What should have happened, held against what did: runs against targets, one by one.

    missed       acknowledged, and not done in the end
    early        begun before its time, as it was acknowledged last
    late         begun long after it, and nothing was wrong at the time
    duplicate    run again, though nothing was wrong with the node that ran it first
    stale        what the store has of it is not what its last attempt came to
    unwanted     begun after it was cancelled

When something was wrong is known: faults are written down as they are made, nodes tell when they were held up, and
whoever adds tells when the store was.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from tickwheel.tasks import Status, Task

__all__ = ["EVERYBODY", "Fault", "Line", "Target", "Verdict", "judge"]

EVERYBODY: Final = "*"
ACCURACY_NS: Final = 2_000_000  # of comparing two clocks
WRITE_NS: Final = 2_000_000_000  # from the end of a run until its outcome is written, at the most
LATE_NS: Final = 15_000_000_000  # on a machine that has other things to do
SHOWN_MAX: Final = 10  # ids in a report


class Line(NamedTuple):
    """What a node wrote: that a run of a task began or ended, or that it was held up."""

    name: str
    what: str
    id: str
    attempt: int
    ns: int


class Fault(NamedTuple):
    """Something that went wrong with a node or with everybody, for a while."""

    what: str
    name: str
    begun_ns: int
    ended_ns: int


class Target:
    """What was promised of a task: a time, which may have been changed since, and that it runs unless cancelled."""

    def __init__(self, due_ms: int) -> None:
        self._promises = [(0, due_ms)]
        self.cancelled_ns: int | None = None
        self.certain = True  # an answer was lost otherwise, and it may be either way

    def move(self, due_ms: int, now_ns: int) -> None:
        """Note that another time was acknowledged."""
        self._promises.append((now_ns, due_ms))

    def due_ms(self, begun_ns: int) -> int:
        """Return when a run that began at a moment was due."""
        return next(due for since, due in reversed(self._promises) if since <= begun_ns)


class Run(NamedTuple):
    name: str
    attempt: int
    begun_ns: int
    ended_ns: int | None


class Verdict(msgspec.Struct, kw_only=True):
    """What was found, task by task."""

    tasks: int
    runs: int
    again: int  # runs that had to be: their first was in flight when something went wrong
    late_ms_max: int
    missed: list[str] = []
    early: list[str] = []
    late: list[str] = []
    duplicate: list[str] = []
    stale: list[str] = []
    unwanted: list[str] = []

    @property
    def good(self) -> bool:
        """Whether every promise was kept."""
        return not self.broken

    @property
    def broken(self) -> set[str]:
        """The tasks of which a promise was broken."""
        return {*self.missed, *self.early, *self.late, *self.duplicate, *self.stale, *self.unwanted}

    def __str__(self) -> str:
        told = [f"{self.tasks} tasks, {self.runs} runs, {self.again} of them again, at most {self.late_ms_max} ms late"]
        for name in ("missed", "early", "late", "duplicate", "stale", "unwanted"):
            found: list[str] = getattr(self, name)
            told.append(f"{len(found)} {name}{': ' * bool(found)}{', '.join(found[:SHOWN_MAX])}")
        return "; ".join(told)


def runs_of(lines: Iterable[Line]) -> dict[str, list[Run]]:
    """Bring together what was written of each task, in the order of its attempts."""
    runs: dict[tuple[str, int, str], Run] = {}
    for line in lines:
        key = line.id, line.attempt, line.name
        if line.what == "begin":
            runs[key] = Run(line.name, line.attempt, line.ns, None)
        elif line.what == "end":
            runs[key] = runs[key]._replace(ended_ns=line.ns)
    by_id: dict[str, list[Run]] = {}
    for (task_id, _, _), run in sorted(runs.items()):
        by_id.setdefault(task_id, []).append(run)
    return by_id


def stalls(lines: Iterable[Line]) -> list[Fault]:
    """Return when nodes could do nothing, without anybody's intention."""
    return [
        Fault("stall", line.name, line.ns - line.attempt * 1_000_000, line.ns) for line in lines if line.what == "stall"
    ]


def judge(
    targets: Mapping[str, Target],
    tasks: Sequence[Task | None],
    lines: Sequence[Line],
    faults: Sequence[Fault],
    *,
    wall_ahead_ns: int,
    lease_ms: int,
) -> Verdict:
    """Hold what happened against what was promised; `tasks` are as the store has them in the end."""
    runs = runs_of(lines)
    faults = [*faults, *stalls(lines)]
    verdict = Verdict(tasks=len(targets), runs=sum(map(len, runs.values())), again=0, late_ms_max=0)
    there = {task.id: task for task in tasks if task is not None}
    for task_id, target in targets.items():
        _judge_end(verdict, task_id, target, there.get(task_id), runs.get(task_id, []))
        _judge_times(verdict, task_id, target, runs.get(task_id, []), faults, wall_ahead_ns, lease_ms)
        for run in runs.get(task_id, [])[:-1]:
            if any(_excuses(fault, run) for fault in faults):
                verdict.again += 1
            else:
                verdict.duplicate.append(task_id)
    return verdict


def _judge_end(verdict: Verdict, task_id: str, target: Target, task: Task | None, runs: list[Run]) -> None:
    status = None if task is None else task.status
    if task is not None and status is Status.COMPLETED:
        last = [run.name for run in runs if run.attempt == task.attempt and run.ended_ns is not None]
        if last != [task.result]:
            verdict.stale.append(task_id)
        elif target.cancelled_ns is not None:
            verdict.unwanted.append(task_id)
    elif status is not Status.CANCELLED or (target.cancelled_ns is None and target.certain):
        verdict.missed.append(task_id)


def _judge_times(
    verdict: Verdict,
    task_id: str,
    target: Target,
    runs: list[Run],
    faults: Sequence[Fault],
    wall_ahead_ns: int,
    lease_ms: int,
) -> None:
    for run in runs:
        due_ns = target.due_ms(run.begun_ns) * 1_000_000 - wall_ahead_ns
        if run.begun_ns < due_ns - ACCURACY_NS:
            verdict.early.append(task_id)
        if target.cancelled_ns is not None and run.begun_ns > target.cancelled_ns:
            verdict.unwanted.append(task_id)
    if runs:
        first = min(runs, key=lambda run: run.begun_ns)
        due_ns = target.due_ms(first.begun_ns) * 1_000_000 - wall_ahead_ns
        verdict.late_ms_max = max(verdict.late_ms_max, (first.begun_ns - due_ns) // 1_000_000)
        if first.begun_ns > _excused_until(due_ns, faults, lease_ms) + LATE_NS:
            verdict.late.append(task_id)


def _excused_until(due_ns: int, faults: Sequence[Fault], lease_ms: int) -> int:
    """Return until when nobody could be expected to begin what was due at a moment."""
    for fault in sorted(faults, key=lambda fault: fault.begun_ns):
        if fault.begun_ns <= due_ns + LATE_NS:
            due_ns = max(due_ns, fault.ended_ns + lease_ms * 1_000_000)
    return due_ns


def _excuses(fault: Fault, run: Run) -> bool:
    """Tell whether a run was in flight, or its outcome not written yet, when something was wrong with its node."""
    theirs = fault.name in (EVERYBODY, run.name)
    in_time = run.ended_ns is None or fault.begun_ns <= run.ended_ns + WRITE_NS
    return theirs and in_time and run.begun_ns <= fault.ended_ns
