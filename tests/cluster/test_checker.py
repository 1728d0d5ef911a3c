"""The checker itself: it has to find what it is there to find."""

import msgspec

from tests.cluster.checker import EVERYBODY, PROMISES, Fault, Line, Target, Verdict, Wall, judge
from tickwheel.tasks import Status, Task
from tickwheel.workers.workers import LOOP_SLOTS

S = 1_000_000_000
LEASE_MS = 1_000


def done(attempt: int = 1, result: str = "a", status: Status = Status.COMPLETED) -> Task:
    return Task(
        id="t", handler="h", run_at=0, occurrence_at=0, created_at=0, status=status, attempt=attempt, result=result
    )


def run(name: str, begun_s: float, ended_s: float | None, attempt: int = 1) -> list[Line]:
    lines = [Line(name, "begin", "t", attempt, int(begun_s * S))]
    return lines if ended_s is None else [*lines, Line(name, "end", "t", attempt, int(ended_s * S))]


def judged(
    lines: list[Line], task: Task | None, *faults: Fault, target: Target | None = None, wall: Wall | None = None
) -> Verdict:
    promised = {"t": target or Target(10_000)}
    return judge(promised, [task], lines, faults, wall=wall or Wall(0), lease_ms=LEASE_MS)


def found(verdict: Verdict) -> list[str]:
    kinds = PROMISES
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


def test_a_run_is_early_by_the_clock_as_it_was_set() -> None:
    wall = Wall(0)
    wall.step(-3 * S, 8 * S)
    assert found(judged(run("a", 10.001, 10.1), done(), wall=wall)) == ["early"]
    assert found(judged(run("a", 13.001, 13.1), done(), wall=wall)) == []
    wall.step(3 * S, 14 * S)
    assert found(judged(run("a", 14.001, 14.1), done(), target=Target(14_000), wall=wall)) == []
    wall.step(-3 * S, 15 * S)
    assert found(judged(run("a", 15.01, 15.1), done(), target=Target(15_000), wall=wall)) == [], "it was just set"


def test_a_run_long_after_its_time_is_late_unless_something_was_wrong() -> None:
    late = run("a", 42.0, 42.1)
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
    target.move(20_000, 8 * S, 9 * S)
    assert found(judged(run("a", 10.0, 10.1), done(), target=target)) == ["early"]
    assert found(judged(run("a", 20.0, 20.1), done(), target=target)) == []


def test_what_was_moved_may_begin_at_its_new_time_before_that_is_acknowledged() -> None:
    target = Target(20_000)
    target.move(10_000, 9 * S, 11 * S)
    assert found(judged(run("a", 10.0, 10.1), done(), target=target)) == []
    assert found(judged(run("a", 9.9, 10.0), done(), target=target)) == ["early"]


def test_an_attempt_that_begins_twice_is_found() -> None:
    twice = [*run("a", 10.0, 10.1), *run("b", 10.0, 10.1)]
    assert "twice" in found(judged(twice, done(), Fault("suspend", "a", 9 * S, 11 * S)))
    assert found(judged([*run("a", 10.0, 10.1), *run("a", 10.2, 10.3)], done())) == ["twice"]


def test_what_runs_at_most_once_never_begins_again() -> None:
    once = Target(10_000, at_most_once=True)
    again = [*run("a", 10.0, None), *run("b", 12.0, 12.1, attempt=2)]
    assert found(judged(again, done(2, "b"), Fault("kill", "a", 10 * S, 11 * S), target=once)) == ["twice"]


def test_what_runs_at_most_once_fails_only_with_its_node() -> None:
    once = Target(10_000, at_most_once=True)
    failed = msgspec.structs.replace(done(status=Status.FAILED), finished_at=11_000)
    kill = Fault("kill", "a", 10 * S, 11 * S)
    assert found(judged(run("a", 10.0, 10.1), failed, target=once)) == ["missed"]
    assert found(judged(run("a", 10.0, None), failed, kill, target=once)) == []
    assert found(judged([], failed, target=once)) == ["missed"]
    unbegun = judged([], failed, kill, target=once)
    assert (found(unbegun), unbegun.unbegun) == ([], 1)


def test_a_kill_explains_one_task_that_never_began_for_each_worker() -> None:
    failed = msgspec.structs.replace(done(0, status=Status.FAILED), finished_at=12_000)
    kills = [Fault("kill", name, 11 * S, 12 * S) for name in "ab"]

    def judged_all(tasks: int) -> Verdict:
        ids = [f"t{number}" for number in range(tasks)]
        targets = {each: Target(10_000, at_most_once=True) for each in ids}
        found = [msgspec.structs.replace(failed, id=each) for each in ids]
        return judge(targets, found, [], kills, wall=Wall(0), lease_ms=LEASE_MS)

    assert (judged_all(2 * LOOP_SLOTS).unbegun, judged_all(2 * LOOP_SLOTS).missed) == (2 * LOOP_SLOTS, [])
    assert len(judged_all(2 * LOOP_SLOTS + 1).missed) == 1
    before = Fault("kill", "a", 5 * S, 6 * S)
    assert found(judged([], failed, before, target=Target(10_000, at_most_once=True))) == ["missed"]


def test_more_runs_at_once_than_a_node_may_have_are_found() -> None:
    targets = {each: Target(10_000, limit=2) for each in "tuv"}
    tasks = [msgspec.structs.replace(done(), id=each) for each in "tuv"]

    def judged_at(*begun_s: float) -> Verdict:
        runs = {each: run("a", at_s, at_s + 1) for each, at_s in zip("tuv", begun_s, strict=True)}
        lines = [line._replace(id=each) for each, lines in runs.items() for line in lines]
        return judge(targets, tasks, lines, [], wall=Wall(0), lease_ms=LEASE_MS)

    assert judged_at(10.1, 10.2, 10.3).crowded == ["v"]
    in_turn = judged_at(10.1, 10.2, 11.15)
    assert (found(in_turn), in_turn.at_once_max) == ([], 2)
