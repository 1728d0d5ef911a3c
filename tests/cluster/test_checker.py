"""The checker itself: it has to find what it is there to find."""

from tests.cluster.checker import EVERYBODY, Fault, Line, Target, Verdict, judge
from tickwheel.tasks import Status, Task

S = 1_000_000_000
LEASE_MS = 1_000


def done(attempt: int = 1, result: str = "a", status: Status = Status.COMPLETED) -> Task:
    return Task(
        id="t", handler="h", run_at=0, occurrence_at=0, created_at=0, status=status, attempt=attempt, result=result
    )


def run(name: str, begun_s: float, ended_s: float | None, attempt: int = 1) -> list[Line]:
    lines = [Line(name, "begin", "t", attempt, int(begun_s * S))]
    return lines if ended_s is None else [*lines, Line(name, "end", "t", attempt, int(ended_s * S))]


def judged(lines: list[Line], task: Task | None, *faults: Fault, target: Target | None = None) -> Verdict:
    promised = {"t": target or Target(10_000)}
    return judge(promised, [task], lines, faults, wall_ahead_ns=0, lease_ms=LEASE_MS)


def found(verdict: Verdict) -> list[str]:
    kinds = ("missed", "early", "late", "duplicate", "stale", "unwanted")
    assert verdict.good == (not any(getattr(verdict, kind) for kind in kinds))
    return [kind for kind in kinds if getattr(verdict, kind)]


def test_a_run_in_time_is_good() -> None:
    verdict = judged(run("a", 10.001, 10.1), done())
    assert found(verdict) == []
    assert (verdict.runs, verdict.again, verdict.late_ms_max) == (1, 0, 1)


def test_what_did_not_run_or_is_not_there_is_missed() -> None:
    assert found(judged([], None)) == ["missed"]
    assert found(judged([], done(0, status=Status.PENDING))) == ["missed"]
    assert found(judged([], done(0, status=Status.CANCELLED))) == ["missed"]


def test_a_run_before_its_time_is_early() -> None:
    assert found(judged(run("a", 9.99, 10.1), done())) == ["early"]


def test_a_run_long_after_its_time_is_late_unless_something_was_wrong() -> None:
    late = run("a", 27.0, 27.1)
    assert found(judged(late, done())) == ["late"]
    assert found(judged(late, done(), Fault("cut", "b", 9 * S, 11 * S + S // 2))) == []
    assert found(judged(late, done(), Fault("cut", "b", 1 * S, 2 * S))) == ["late"]


def test_a_second_run_is_a_duplicate_unless_the_first_was_in_flight_at_a_fault() -> None:
    twice = [*run("a", 10.0, 10.1), *run("b", 12.0, 12.1, attempt=2)]
    assert found(judged(twice, done(2, "b"))) == ["duplicate"]
    assert found(judged(twice, done(2, "b"), Fault("kill", "b", 10 * S, 10 * S))) == ["duplicate"]
    excused = judged(twice, done(2, "b"), Fault("kill", "a", 10 * S, 10 * S))
    assert (found(excused), excused.again) == ([], 1)
    assert found(judged(twice, done(2, "b"), Fault("stop", EVERYBODY, 10 * S, 11 * S))) == []
    assert found(judged([*twice, Line("a", "stall", "-", 1_500, 12 * S)], done(2, "b"))) == []


def test_an_outcome_that_is_not_of_the_last_attempt_is_stale() -> None:
    suspended = Fault("suspend", "a", 10 * S, 13 * S)
    twice = [*run("a", 10.0, 13.1), *run("b", 12.0, 12.1, attempt=2)]
    assert found(judged(twice, done(2, "b"), suspended)) == []
    assert found(judged(twice, done(2, "a"), suspended)) == ["stale"]
    assert found(judged(run("a", 10.0, None), done())) == ["stale"]


def test_nothing_begins_after_it_was_cancelled() -> None:
    target = Target(10_000)
    target.cancelled_ns = 9 * S
    assert found(judged([], done(0, status=Status.CANCELLED), target=target)) == []
    assert found(judged(run("a", 10.0, 10.1), done(1, status=Status.CANCELLED), target=target)) == ["unwanted"]


def test_what_was_moved_is_due_at_its_new_time() -> None:
    target = Target(10_000)
    target.move(20_000, 9 * S)
    assert found(judged(run("a", 10.0, 10.1), done(), target=target)) == ["early"]
    assert found(judged(run("a", 20.0, 20.1), done(), target=target)) == []
