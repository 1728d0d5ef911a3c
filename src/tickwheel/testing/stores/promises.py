"""A state machine that does the same random things to tasks in a store and to the reference model.

    def test_it_keeps_the_promises():
        check_against_reference(open_my_store, settings=settings(max_examples=20))

All verbs in all states, claims, every outcome, owners that die, and outcomes that come too late. The clock is set so
that runs overlap and series miss occurrences.
"""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any

from hypothesis import settings as Settings  # noqa: N812 - it is a class
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from msgspec.structs import replace

from tickwheel.clock import VirtualClock
from tickwheel.errors import TickwheelError
from tickwheel.stores.contract import Filter, Finish, Lease, Store
from tickwheel.tasks import transitions
from tickwheel.tasks.policies import LatePolicy, RetryPolicy
from tickwheel.tasks.record import Status, Task
from tickwheel.tasks.triggers import ONCE, Every
from tickwheel.testing.stores import reference
from tickwheel.testing.stores.legal import LegalStore
from tickwheel.testing.stores.reference import Modelled
from tickwheel.testing.stores.scenario import now_of, task

__all__ = ["check_against_reference"]

BEGIN_MS = 1_000_000
RETRY_MS = 6
CRASH_MS = 500  # after the first crash, and without chance; twice as long after each further one
names = st.sampled_from(["a", "b"])
waits = st.integers(0, 30)
OUTCOMES = ["succeed", "succeed", "fail", "fail for good", "snooze", "stop", "interrupt"]
VERBS = ["cancel", "pause", "resume", "reschedule", "run_now", "retry", "update", "delete"]


def check_against_reference(
    opened: Callable[[VirtualClock], AbstractAsyncContextManager[Store]], *, settings: Settings | None = None
) -> None:
    """Look for something that becomes of a task in a store otherwise than in the model."""

    class Machine(PromiseMachine):
        def open(self, clock: VirtualClock) -> AbstractAsyncContextManager[Store]:
            return opened(clock)

    run_state_machine_as_test(Machine, settings=settings)


@st.composite
def kinds(draw: st.DrawFn) -> dict[str, Any]:
    """Draw what a task is like."""
    recurring, at_most_once = draw(st.booleans()), draw(st.sampled_from([False, False, True]))
    kind: dict[str, Any] = {
        "interval_ms": draw(st.sampled_from([7, 20])) if recurring else None,
        "times": draw(st.sampled_from([-1, 2, 3])) if recurring else 1,
        "retries": 0 if at_most_once else draw(st.integers(0, 2)),
        "max_crashes": draw(st.integers(1, 3)),
        "at_most_once": at_most_once,
        "overlap": draw(st.sampled_from(["skip", "queue_one"])),
        "missed": draw(st.sampled_from(["run_once", "run_all", "skip"])),
        "catch_up": draw(st.sampled_from([1, 2, 100])),
        "lasts_ms": draw(st.sampled_from([None, None, 15])),
        "args": {"n": draw(st.integers(0, 3))},
    }
    return {**kind, "handler": "orders.remind" if kind["args"]["n"] == 3 else "orders.cancel"}


class PromiseMachine(RuleBasedStateMachine):
    """A store with one partition in use, and the model of its tasks."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = VirtualClock(wall_ns=BEGIN_MS * 1_000_000)
        self.runner = asyncio.Runner()
        self.stack = AsyncExitStack()
        self.store = LegalStore(self.runner.run(self.stack.enter_async_context(self.open(self.clock))))
        self.model: dict[str, Modelled] = {}
        self.claimed: dict[str, Task] = {}
        self.begun: dict[str, Task] = {}  # of these, as they began
        self.stale: list[Finish] = []
        self.owner = 0
        self.lease = self.take_over()

    def open(self, clock: VirtualClock) -> AbstractAsyncContextManager[Store]:
        """Open the store to compare."""
        raise NotImplementedError

    def teardown(self) -> None:
        """Close it."""
        self.runner.run(self.stack.aclose())
        self.runner.close()

    @property
    def now(self) -> int:
        """Read the clock."""
        return now_of(self.clock)

    def take_over(self) -> Lease:
        self.owner += 1
        node = f"node {self.owner}"

        async def acquire() -> list[Lease]:
            await self.store.heartbeat(node, 10**9)
            return await self.store.acquire([0], node, 10**9)

        [lease] = self.runner.run(acquire())
        return lease

    def verb(self, name: str, expected: object, call: Any) -> None:
        """Call a verb, and see that it changes a task exactly if the model says so."""
        [before] = self.runner.run(self.store.get([name]))
        try:
            self.runner.run(call)
        except TickwheelError:
            assert expected is None
        [after] = self.runner.run(self.store.get([name]))
        assert (before != after) == bool(expected)

    # -- adding

    @rule(name=names, kind=kinds(), wait=waits, on_conflict=st.sampled_from(["reject", "keep", "replace", "debounce"]))
    def add(self, name: str, kind: dict[str, Any], wait: int, on_conflict: Any) -> None:
        there, origin = self.model.get(name), self.now + wait
        lasts_ms = kind["lasts_ms"]
        expires_at = None if lasts_ms is None else origin + lasts_ms
        new = Modelled(
            origin=origin, expires_at=expires_at, **{each: kind[each] for each in kind if each != "lasts_ms"}
        )
        trigger = ONCE if new.interval_ms is None else Every(interval_ms=new.interval_ms)
        retry = RetryPolicy(retries=new.retries, first_ms=RETRY_MS, factor=1.0, jitter=0.0)
        fields = {each: kind[each] for each in ("handler", "times", "max_crashes", "at_most_once", "overlap", "args")}
        late = LatePolicy(mode=new.missed, catch_up=new.catch_up)  # type: ignore[arg-type] # drawn
        added = task(name, origin, trigger=trigger, retry=retry, late=late, expires_at=expires_at, **fields)
        try:
            self.runner.run(self.store.add([added], on_conflict))
            refused: type[TickwheelError] | None = None
        except TickwheelError as error:
            refused = type(error)
        after, expected = reference.add(there, new, on_conflict)
        assert refused is expected
        if after is not None:
            self.model[name] = after

    # -- verbs, in one rule, so that there are as many runs as verbs

    @initialize(a=kinds(), b=kinds())
    def begin(self, a: dict[str, Any], b: dict[str, Any]) -> None:
        self.add("a", a, 0, "reject")
        self.add("b", b, 10, "reject")

    @rule(name=names, verb=st.sampled_from(VERBS), flag=st.booleans(), wait=waits)
    def act(self, name: str, verb: str, flag: bool, wait: int) -> None:  # noqa: FBT001 - drawn
        modelled = self.model.get(name)
        if modelled is None:
            return
        if verb == "cancel":
            self.verb(name, modelled.cancel(run_only=flag), self.store.cancel([name], "no", run_only=flag))
        elif verb == "pause":
            self.verb(name, modelled.pause(), self.store.pause([name]))
        elif verb == "resume":
            self.verb(name, modelled.resume(self.now, run_missed=flag), self.store.resume([name], run_missed=flag))
        elif verb == "reschedule":
            self.verb(name, modelled.reschedule(self.now + wait), self.store.reschedule(name, self.now + wait))
        elif verb == "run_now":
            self.verb(name, modelled.run_now(self.now), self.store.run_now([name]))
        elif verb == "retry":
            self.verb(name, modelled.retry(self.now), self.store.revive([name], self.now))
        elif verb == "update":
            self.update(name, modelled, {"n": 4 + wait}, 1 + wait % 4 if flag else None)
        elif flag:
            self.delete(name, modelled)

    def update(self, name: str, modelled: Modelled, args: dict[str, Any], times: int | None) -> None:
        [there] = self.runner.run(self.store.get([name]))
        assert there is not None
        left = there.following
        if not there.is_recurring or (left is not None and not left.task.is_recurring):
            times = None
        changed: dict[str, Any] = {"args": args} if times is None else {"args": args, "times": times}
        after = replace(there, **changed)
        if left is not None and there.status is Status.RUNNING:
            after = replace(left.task, version=there.version, **changed)
        elif left is not None:
            after = replace(after, following=replace(left, task=replace(left.task, **changed)))
        self.verb(name, modelled.update(args, times=times), self.store.amend([after]))

    def delete(self, name: str, modelled: Modelled) -> None:
        self.runner.run(self.store.remove([name]))
        if modelled.state != "running":
            del self.model[name]
            # Attempts of a task that is added under the id again are counted from 1 again, as an owner knows: it claims
            # nothing under an id whose outcome it still has to write.
            self.stale = [finish for finish in self.stale if finish.task.id != name]

    @rule(ms=st.integers(1, 25))
    def pass_time(self, ms: int) -> None:
        self.clock.advance_ns(ms * 1_000_000)

    # -- owners

    @rule(name=names, waits_for_it=st.sampled_from([True, True, False]))
    def claim(self, name: str, waits_for_it: bool) -> None:  # noqa: FBT001 - drawn
        modelled = self.model.get(name)
        if waits_for_it and modelled is not None and modelled.listed == "pending":
            self.clock.advance_ns(max(modelled.due_at - self.now, 0) * 1_000_000)
        claimed = self.runner.run(self.store.claim([self.lease], [name], self.now))
        expected = name in self.model and self.model[name].claim(self.now)
        assert bool(claimed) == expected
        self.claimed |= {each.id: each for each in claimed}

    @precondition(lambda self: self.claimed.keys() - self.begun.keys())
    @rule(new_owner=st.booleans())
    def call(self, new_owner: bool) -> None:  # noqa: FBT001 - drawn
        """Begin what was claimed, unless it has expired or was missed."""
        self.call_handler(min(self.claimed.keys() - self.begun.keys()), new_owner)

    def call_handler(self, name: str, new_owner: bool) -> None:  # noqa: FBT001 - drawn
        owned_since = self.now if new_owner else 0
        begun = transitions.begin(self.claimed[name], self.now, owned_since)
        what, replaced = self.model[name].begin(self.now, owned_since)
        assert (what == "begun") == isinstance(begun, Task)
        if isinstance(begun, Task):
            self.begun[name] = begun
        else:
            self.write(begun)
            del self.claimed[name]
            self.model[name] = replaced or self.model[name]

    @precondition(lambda self: self.claimed.keys() - self.begun.keys())
    @rule()
    def release(self) -> None:
        """Give up a claim."""
        name = min(self.claimed.keys() - self.begun.keys())
        self.write(transitions.release(self.claimed.pop(name)))
        self.model[name] = self.model[name].release(self.now) or self.model[name]

    @precondition(lambda self: self.begun)
    @rule(name=names, how=st.sampled_from(OUTCOMES))
    def finish(self, name: str, how: str) -> None:
        name = name if name in self.begun else next(iter(self.begun))
        running, modelled, now = self.begun.pop(name), self.model[name], self.now
        del self.claimed[name]
        if how == "stop" and not modelled.asked_to_stop:
            how = "succeed"
        ended: transitions.Ended = {
            "succeed": lambda: transitions.succeed(running, None, now),
            "fail": lambda: transitions.fail(running, "boom", now, 0.0),
            "fail for good": lambda: transitions.fail_for_good(running, "boom", "on request", now),
            "snooze": lambda: transitions.snooze(running, 5, "later", now),
            "stop": lambda: transitions.stop(running, "stopped", now),
            "interrupt": lambda: transitions.interrupt(running, now),
        }[how]()
        self.write(ended)
        replaced = {
            "succeed": lambda: modelled.end("completed", now),
            "fail": lambda: modelled.fail(now, RETRY_MS),
            "fail for good": lambda: modelled.fail_for_good(now),
            "snooze": lambda: modelled.snooze(now, 5),
            "stop": lambda: modelled.stop(now),
            "interrupt": lambda: modelled.interrupt(now),
        }[how]()
        self.model[name] = replaced or modelled

    @rule(name=names, ms=st.integers(0, 25), how=st.sampled_from(OUTCOMES), new_owner=st.booleans())
    def run(self, name: str, ms: int, how: str, new_owner: bool) -> None:  # noqa: FBT001 - drawn
        """Do all that at once, so that series get on."""
        self.claim(name, waits_for_it=True)
        if name in self.claimed.keys() - self.begun.keys():
            self.call_handler(name, new_owner)
        self.pass_time(ms)
        if name in self.begun:
            self.finish(name, how)

    def write(self, ended: transitions.Ended) -> None:
        finish = Finish(lease=self.lease, task=ended.task, run=ended.run, skipped=ended.skipped)
        assert self.runner.run(self.store.finish([finish])) == [True]
        self.stale.append(finish)

    @precondition(lambda self: self.claimed)
    @rule()
    def die(self) -> None:
        """Let the owner die: another node takes over, and finds what ran."""
        lost = [
            Finish(lease=self.lease, task=transitions.succeed(each, 1, self.now).task) for each in self.claimed.values()
        ]
        self.runner.run(self.store.release([self.lease]))
        self.lease = self.take_over()
        assert self.runner.run(self.store.finish(lost)) == [False] * len(lost), "it owns them no more"
        orphans = self.runner.run(self.store.orphans([self.lease], 10))
        assert {each.id for each in orphans} == set(self.claimed)
        for orphan in orphans:
            modelled = self.model[orphan.id]
            self.write(transitions.crash(orphan, self.now, 0.0))
            self.model[orphan.id] = modelled.crash(self.now, CRASH_MS * 2**modelled.crashes) or modelled
        self.claimed, self.begun = {}, {}

    @precondition(lambda self: self.stale)
    @rule()
    def finish_again(self) -> None:
        """Write an outcome that was written before."""
        stale = replace(self.stale[-1], lease=self.lease)
        assert self.runner.run(self.store.finish([stale])) == [False]

    # -- compare

    @invariant()
    def are_alike(self) -> None:
        """Compare all that can be seen."""
        found = {each.id: each for each in self.runner.run(self.store.query(Filter(), None, 10)).tasks}
        assert found.keys() == self.model.keys()
        for name, modelled in self.model.items():
            assert seen(found[name]) == foreseen(modelled), (found[name], modelled)
        due = {each.id for each in self.runner.run(self.store.due([self.lease], 10**12, None, 10))}
        assert due == {name for name, modelled in self.model.items() if modelled.listed == "pending"}
        counts = self.runner.run(self.store.counts())
        listed = [modelled.listed for modelled in self.model.values()]
        assert {status.value: count for status, count in counts.items() if count} == {
            each: listed.count(each) for each in listed
        }
        for name, modelled in self.model.items():
            runs = [run.status.value for run in reversed(self.runner.run(self.store.history(name, 1000)))]
            assert runs == modelled.history


def seen(found: Task) -> tuple[Any, ...]:
    """Return what a caller sees of a task."""
    counts = (found.failures, found.crashes, found.snoozes, found.runs)
    return (
        found.listed_status.value,
        found.paused,
        found.args,
        found.cancel_requested and found.status is Status.RUNNING,
    ) + (() if found.finished_at is not None and found.status is not Status.PENDING else (found.run_at, *counts))


def foreseen(modelled: Modelled) -> tuple[Any, ...]:
    """Return the same of the model."""
    counts = (modelled.failures, modelled.crashes, modelled.snoozes, modelled.runs)
    finished = modelled.state in ("completed", "failed", "cancelled")
    return (modelled.listed, modelled.paused, modelled.args, bool(modelled.asked_to_stop)) + (
        () if finished else (modelled.due_at, *counts)
    )
