"""What should have happened, held against what did: runs against targets, one by one.

    missed       acknowledged, and not done in the end
    early        begun before its time, as it was acknowledged last, by the store's clock
    late         begun long after it, and nothing was wrong at the time
    duplicate    run again, though nothing was wrong with the node that ran it first
    stale        what the store has of it is not what its last attempt came to
    unwanted     begun after a cancel was answered with `cancelled`
    twice        begun twice under one attempt, or at all though at most once was asked for
    crowded      begun while as many runs of its handler as may be were under way on its node

A task that is to run at most once fails if its node dies while it is claimed. Those that never began are counted as
`unbegun`: a claim is the mark of the beginning, and the kill came before the first line of the handler. A node claims
such a task for a worker that is free, so a death explains at most one for each; others are `missed`.

When something was wrong is known: faults are written down as they are made, nodes tell when they were held up, and
whoever adds tells when the store was.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from tickwheel.tasks import Status, Task
from tickwheel.workers.workers import LOOP_SLOTS

__all__ = ["EVERYBODY", "PROMISES", "Fault", "Line", "Target", "Verdict", "Wall", "judge"]

EVERYBODY: Final = "*"
ACCURACY_NS: Final = 2_000_000  # of comparing two clocks
WRITE_NS: Final = 2_000_000_000  # from the end of a run until its outcome is written, at the most
LATE_NS: Final = 30_000_000_000  # on a machine that has other things to do
SHOWN_MAX: Final = 10  # ids in a report
STEP_NS: Final = 100_000_000  # what is claimed when a clock is set may begin by how it was, for twice as long as it may
PROMISES: Final = ("missed", "early", "late", "duplicate", "stale", "unwanted", "twice", "crowded")  # as above


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


class Wall:
    """How far the store's clock is ahead of the one that all processes of a machine share; it may be set."""

    def __init__(self, ahead_ns: int) -> None:
        self._steps = [(0, ahead_ns)]

    @property
    def latest_ns(self) -> int:
        """How far it is ahead, as far as that was noted."""
        return self._steps[-1][1]

    def step(self, by_ns: int, now_ns: int) -> None:
        """Note that it was set forward or back."""
        self._steps.append((now_ns, self.latest_ns + by_ns))

    def ahead_ns(self, now_ns: int) -> int:
        """Return how far it was ahead at a moment; if it was just being set, the most that it was."""
        last = bisect_right(self._steps, now_ns, key=lambda step: step[0])
        first = bisect_right(self._steps, now_ns - STEP_NS, key=lambda step: step[0])
        return max(ahead_ns for _, ahead_ns in self._steps[max(first - 1, 0) : last])


class Target:
    """What was promised of a task: a time, which may have been changed since, and that it runs unless cancelled."""

    def __init__(self, due_ms: int, *, at_most_once: bool = False, limit: int | None = None) -> None:
        self._promises = [(0, 0, due_ms)]  # when it was asked for, when that was acknowledged, and the time
        self.at_most_once = at_most_once
        self.limit = limit  # how many of its kind may run at once on a node
        self.cancelled_ns: int | None = None
        self.certain = True  # an answer was lost otherwise, and it may be either way

    def move(self, due_ms: int, asked_ns: int, now_ns: int) -> None:
        """Note that another time was acknowledged now; it may have been in effect since it was asked for."""
        self._promises.append((asked_ns, now_ns, due_ms))

    def due_ms(self, begun_ns: int) -> int:
        """Return when a run that began at a moment was due."""
        settled = next(due for _, since, due in reversed(self._promises) if since <= begun_ns)
        return min([settled, *(due for asked, since, due in self._promises if asked <= begun_ns < since)])


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
    unbegun: int = 0  # failed without having begun, as its node died: of those that run at most once
    at_once_max: int = 0  # runs of the handler with a limit, on one node
    missed: list[str] = []
    early: list[str] = []
    late: list[str] = []
    duplicate: list[str] = []
    stale: list[str] = []
    unwanted: list[str] = []
    twice: list[str] = []
    crowded: list[str] = []

    @property
    def good(self) -> bool:
        """Whether every promise was kept."""
        return not self.broken

    @property
    def broken(self) -> set[str]:
        """The tasks of which a promise was broken."""
        return {task_id for name in PROMISES for task_id in getattr(self, name)}

    def __str__(self) -> str:
        runs = f"{self.runs} runs, {self.again} of them again, {self.unbegun} failed without beginning"
        told = [f"{self.tasks} tasks, {runs}, at most {self.late_ms_max} ms late"]
        for name in PROMISES:
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


def begun_twice(lines: Iterable[Line]) -> set[str]:
    """Return the tasks of which one attempt was begun more than once."""
    begun = Counter((line.id, line.attempt) for line in lines if line.what == "begin")
    return {task_id for (task_id, _), times in begun.items() if times > 1}


def stalls(lines: Iterable[Line]) -> list[Fault]:
    """Return when nodes could do nothing, without anybody's intention."""
    return [
        Fault("stall", line.name, line.ns - line.attempt * 1_000_000, line.ns) for line in lines if line.what == "stall"
    ]


class Excuses:
    """What went wrong, in the order in which it began."""

    def __init__(self, faults: Iterable[Fault], lease_ms: int) -> None:
        self.faults = sorted(faults, key=lambda fault: fault.begun_ns)
        self._lease_ns = lease_ms * 1_000_000
        self._of: dict[str, list[Fault]] = {}
        for fault in self.faults:
            self._of.setdefault(fault.name, []).append(fault)

    def cover(self, run: Run) -> bool:
        """Tell whether a run was in flight, or its outcome not written yet, when something was wrong with its node."""
        until_ns = None if run.ended_ns is None else run.ended_ns + WRITE_NS
        return any(
            run.begun_ns <= fault.ended_ns and (until_ns is None or fault.begun_ns <= until_ns)
            for name in (EVERYBODY, run.name)
            for fault in self._of.get(name, ())
        )

    def until(self, due_ns: int) -> int:
        """Return until when nobody could be expected to begin what was due at a moment."""
        for fault in self.faults:
            if fault.begun_ns > due_ns + LATE_NS:
                break
            due_ns = max(due_ns, fault.ended_ns + self._lease_ns)
        return due_ns

    def explain(self, unbegun: Mapping[str, tuple[int, int]]) -> set[str]:
        """Return those tasks, claimed after a moment and failed by another, for whose claim some node had a worker."""
        left, explained = dict(unbegun), set[str]()
        for fault in self.faults:
            could = [each for each, (due_ns, _) in left.items() if due_ns <= fault.ended_ns]
            theirs = sorted((left[each][1], each) for each in could if left[each][1] >= fault.begun_ns)
            for _, task_id in theirs if fault.name == EVERYBODY else theirs[:LOOP_SLOTS]:
                explained.add(task_id)
                del left[task_id]
        return explained


def judge(
    targets: Mapping[str, Target],
    tasks: Sequence[Task | None],
    lines: Sequence[Line],
    faults: Sequence[Fault],
    *,
    wall: Wall,
    lease_ms: int,
) -> Verdict:
    """Hold what happened against what was promised; `tasks` are as the store has them in the end."""
    runs = runs_of(lines)
    excuses = Excuses([*faults, *stalls(lines)], lease_ms)
    verdict = Verdict(tasks=len(targets), runs=sum(map(len, runs.values())), again=0, late_ms_max=0)
    there = {task.id: task for task in tasks if task is not None}
    verdict.twice += sorted(begun_twice(lines))
    unbegun: dict[str, tuple[int, int]] = {}
    for task_id, target in targets.items():
        task, its_runs = there.get(task_id), runs.get(task_id, [])
        if task is not None and target.at_most_once and task.status is Status.FAILED and not its_runs:
            unbegun[task_id] = _window(task, target, wall)
        else:
            _judge_end(verdict, task_id, target, task, its_runs, excuses)
        _judge_times(verdict, task_id, target, its_runs, excuses, wall)
        if target.at_most_once and len(its_runs) > 1:
            verdict.twice.append(task_id)
        for run in its_runs[:-1]:
            if excuses.cover(run):
                verdict.again += 1
            else:
                verdict.duplicate.append(task_id)
    explained = excuses.explain(unbegun)
    verdict.unbegun = len(explained)
    verdict.missed += sorted(unbegun.keys() - explained)
    _judge_limits(verdict, targets, lines)
    return verdict


def _window(task: Task, target: Target, wall: Wall) -> tuple[int, int]:
    """Return between which moments the node of a task that never began must have died."""
    failed_ms = target.due_ms(0) if task.finished_at is None else task.finished_at
    steps = [ahead_ns for _, ahead_ns in wall._steps]
    return target.due_ms(0) * 1_000_000 - max(steps), failed_ms * 1_000_000 - min(steps)


def _judge_end(
    verdict: Verdict, task_id: str, target: Target, task: Task | None, runs: list[Run], excuses: Excuses
) -> None:
    status = None if task is None else task.status
    if target.at_most_once and status is Status.FAILED:
        if not excuses.cover(runs[-1]):
            verdict.missed.append(task_id)
        return
    if task is not None and status is Status.COMPLETED:
        last = [run.name for run in runs if run.attempt == task.attempt and run.ended_ns is not None]
        if last != [task.result]:
            verdict.stale.append(task_id)
        elif target.cancelled_ns is not None:
            verdict.unwanted.append(task_id)
    elif status is not Status.CANCELLED or (target.cancelled_ns is None and target.certain):
        verdict.missed.append(task_id)


def _judge_times(verdict: Verdict, task_id: str, target: Target, runs: list[Run], excuses: Excuses, wall: Wall) -> None:
    for run in runs:
        due_ns = target.due_ms(run.begun_ns) * 1_000_000 - wall.ahead_ns(run.begun_ns)
        if run.begun_ns < due_ns - ACCURACY_NS:
            verdict.early.append(task_id)
        if target.cancelled_ns is not None and run.begun_ns > target.cancelled_ns:
            verdict.unwanted.append(task_id)
    if runs:
        first = min(runs, key=lambda run: run.begun_ns)
        due_ns = target.due_ms(first.begun_ns) * 1_000_000 - wall.ahead_ns(first.begun_ns)
        verdict.late_ms_max = max(verdict.late_ms_max, (first.begun_ns - due_ns) // 1_000_000)
        if first.begun_ns > due_ns + LATE_NS and first.begun_ns > excuses.until(due_ns) + LATE_NS:
            verdict.late.append(task_id)


def _judge_limits(verdict: Verdict, targets: Mapping[str, Target], lines: Sequence[Line]) -> None:
    """Count the runs that are under way on each node; those of a node that died do not end, and count no more."""
    under_way: dict[str, set[str]] = {}
    for line in sorted(lines, key=lambda line: line.ns):
        target = targets.get(line.id)
        if target is None or target.limit is None:
            continue
        theirs = under_way.setdefault(line.name, set())
        if line.what == "end":
            theirs.discard(line.id)
            continue
        theirs.add(line.id)
        verdict.at_once_max = max(verdict.at_once_max, len(theirs))
        if len(theirs) > target.limit:
            verdict.crowded.append(line.id)
