"""Schedulers on virtual time keep the promises of the reference model, whatever is done to tasks and to nodes."""

import asyncio
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.scheduler.lockstep import Lockstep
from tests.scheduler.still import StillStore
from tests.scheduler.witness import CALLED, RETRY_MS, Flight, Node, Witness, WitnessedStore
from tickwheel import VirtualClock
from tickwheel.errors import Fail, RetryAfter, Snooze, TaskFinished, TaskRunning, TickwheelError, UnknownTask
from tickwheel.scheduler import AsyncScheduler
from tickwheel.scheduler.task_builder import partition_of
from tickwheel.stores.memory import MemoryStore
from tickwheel.tasks.context import TaskContext
from tickwheel.tasks.policies import LatePolicy, RetryPolicy
from tickwheel.testing.stores.reference import Modelled

FUZZING: Final = os.environ.get("HYPOTHESIS_PROFILE") == "fuzz"
PARTITIONS: Final = 2
OPTIONS: Final[dict[str, Any]] = {"lease_ttl_ms": 3_000, "rescan_ms": 5_000, "horizon_ms": 60_000, "threads": 0}
CALM_NS: Final = 12 * 10**9  # after the last fault: a lease, a round and a rescan
SLACK_NS: Final = 8 * 10**9  # after that, for anything: a rescan, where no notification comes
NODES_MAX: Final = 2

names = st.sampled_from(["a", "b", "c"])
spans = st.sampled_from([1, 30, 400, 1_000, 2_500, 7_000, 40_000])
passing = st.sampled_from([0.01, 0.06, 0.2, 1.0, 3.0, 10.0, 30.0])
DEEDS: Final = [
    "return", "return", "raise", "snooze", "retry after", "fail", "work", "long", "hang", "hang", "stubborn", "angry",
]  # fmt: skip
VERBS: Final = ["cancel", "cancel", "pause", "resume", "reschedule", "run_now", "retry", "update", "delete"]


@st.composite
def kinds(draw: st.DrawFn) -> dict[str, Any]:
    """Draw what a task is like."""
    trigger, at_most_once = draw(st.sampled_from(["once", "every", "every", "cron"])), draw(st.integers(0, 2)) == 0
    return {
        "interval_ms": {"once": None, "every": draw(st.sampled_from([1_000, 4_000, 30_000])), "cron": 10_000}[trigger],
        "by_calendar": trigger == "cron",
        "times": draw(st.sampled_from([-1, -1, 2, 3])) if trigger != "once" else 1,
        "retries": 0 if at_most_once else draw(st.integers(0, 2)),
        "max_crashes": draw(st.integers(1, 3)),
        "at_most_once": at_most_once,
        "overlap": draw(st.sampled_from(["skip", "queue_one"])),
        "missed": draw(st.sampled_from(["run_once", "run_all", "skip"])),
        "catch_up": draw(st.sampled_from([1, 3])),
        "args": {"does": draw(st.lists(st.sampled_from(DEEDS), min_size=1, max_size=3)), "n": draw(st.integers(0, 9))},
        "delay_ms": draw(st.one_of(st.none(), spans)),
        "lasts_ms": draw(st.sampled_from([None, None, None, 20_000])),
        "timeout_s": draw(st.sampled_from([20, 300])),
    }


class Process:
    """A scheduler on a loop of its own."""

    def __init__(self, machine: "EngineMachine", name: str, *, run: bool, latency_s: float) -> None:
        self.node = Node(name)
        self.loop = machine.steps.loop()
        self.told: dict[str, asyncio.Event] = {}
        store: Any = WitnessedStore(machine.witness, self.node, latency_s)
        self.scheduler_store = store
        self.scheduler = AsyncScheduler(store, run=run, clock=machine.clock, rng=Random(name), **OPTIONS)
        witness = machine.witness

        @self.scheduler.task("act")
        async def act(does: list[str], n: int, context: TaskContext) -> int:
            name, partition = context.id, partition_of(context.id, PARTITIONS)
            flight = witness.begin(self.node, name, context.attempt, partition, {"does": does, "n": n})
            deed = does[witness.begins[name] % len(does)]
            try:
                await self.do(deed, name, flight)
            except BaseException as error:
                words = {Snooze: "snoozed", RetryAfter: "retry after", Fail: "failed"}
                witness.end(flight, name, words.get(type(error), "raised"))
                raise
            witness.end(flight, name, "returned")
            return n

    async def do(self, deed: str, name: str, flight: Flight) -> None:
        """Do what a handler may do."""
        raised = {"raise": ValueError("boom"), "snooze": Snooze(2), "retry after": RetryAfter(3), "fail": Fail("no")}
        if deed in raised:
            raise raised[deed]
        if deed == "return":
            return
        try:
            if deed == "hang":
                await self.told.setdefault(name, asyncio.Event()).wait()
            else:
                await asyncio.sleep({"work": 2.0, "long": 25.0}.get(deed, 6.0))
        except asyncio.CancelledError:
            flight.stopped = True
            if deed == "angry":
                raise ValueError("how dare you") from None
            if deed != "stubborn":
                raise

    def tell(self) -> None:
        """Let those that hang go on."""
        for event in self.told.values():
            event.set()
        self.told = {}


class StepLog(logging.Handler):
    """Tells which node noticed a step of the clock, by what it logs and the loop that runs."""

    def __init__(self, machine: "EngineMachine") -> None:
        super().__init__()
        self.machine = machine

    def emit(self, record: logging.LogRecord) -> None:
        """Tell the witness."""
        if record.msg.startswith("the wall clock was set"):
            loop = asyncio.get_running_loop()
            [node] = [process.node for process in self.machine.nodes if process.loop is loop]
            self.machine.witness.noticed(node, record.args[0])  # type: ignore[index,arg-type]


class EngineMachine(RuleBasedStateMachine):
    """Some nodes on a store, somebody who calls verbs, and a model of it all."""

    steps_clock = False

    def __init__(self) -> None:
        super().__init__()
        self.clock = VirtualClock()
        self.steps = Lockstep(self.clock)
        self.opened = self.open(self.clock)
        self.witness = Witness(self.opened.__enter__(), self.clock)
        self.calm_ns = 0
        self.latency_s = 0.0
        self.nodes: list[Process] = []
        self.started = 0
        self.step_log = StepLog(self)
        logging.getLogger("tickwheel.scheduler").addHandler(self.step_log)

    def open(self, clock: VirtualClock) -> Any:
        """Open the store to try."""
        raise NotImplementedError

    @initialize(latency_s=st.sampled_from([0.0, 0.0, 0.004, 0.03]), a=kinds(), b=kinds())
    def begin(self, latency_s: float, a: dict[str, Any], b: dict[str, Any]) -> None:
        self.latency_s = latency_s
        self.client = Process(self, "client", run=False, latency_s=latency_s)
        self.steps.run(self.client.loop, self.client.scheduler.start())
        self.start()
        self.add("a", a, "reject", 1)
        self.add("b", b, "reject", 1)

    def teardown(self) -> None:
        """End all faults: what is due runs, and all stops in order."""
        try:
            if self.started and not self.witness.complaints:
                self.calm_down()
                for node in list(self.nodes):
                    self.stop(node, 2.0)
                self.judge()
        finally:
            self.witness.over = True
            logging.getLogger("tickwheel.scheduler").removeHandler(self.step_log)
            self.steps.end()
            self.opened.__exit__(None, None, None)

    def calm_down(self) -> None:
        for node in list(self.nodes):
            self.resume(node)
            node.node.deaf = False
        if not self.nodes:
            self.start()
        for _ in range(3):
            for node in self.nodes:
                node.tell()
            self.pass_time((CALM_NS + SLACK_NS) / 3e9)
        self.judge()

    def judge(self) -> None:
        """Raise the first complaint, with what led to it."""
        self.steps.run(self.client.loop, self.witness.compare())
        works = any(node.node.works for node in self.nodes)
        calm_ns = self.clock.monotonic_ns() - self.calm_ns
        if self.witness.is_held():  # by a dead node, whose lease lasts longer where the clock was set back
            self.fault()
        elif works and calm_ns > CALM_NS:
            self.witness.look_for_the_lost(SLACK_NS)
        if self.witness.complaints:
            raise AssertionError("\n".join([*self.witness.led_to_it(), "", self.witness.complaints[0]]))

    def fault(self) -> None:
        self.calm_ns = self.clock.monotonic_ns()

    # -- tasks

    def caller(self, place: int) -> Process:
        able = [node for node in self.nodes if not node.node.suspended]
        return able[place - 1] if 0 < place <= len(able) else self.client

    @rule(
        name=names,
        kind=kinds(),
        on_conflict=st.sampled_from(["reject", "keep", "replace", "debounce"]),
        place=st.integers(0, NODES_MAX),
    )
    def add(self, name: str, kind: dict[str, Any], on_conflict: Any, place: int) -> None:
        now_ns, kind = self.clock.time_ns(), dict(kind)
        now_up, delay_ms, lasts_ms = -(-now_ns // 1_000_000), kind.pop("delay_ms"), kind.pop("lasts_ms")
        timeout_s = kind.pop("timeout_s")
        wishes: dict[str, Any] = {name: kind[name] for name in ("overlap", "at_most_once", "max_crashes", "times")}
        if kind["by_calendar"]:
            origin = (now_ns // 1_000_000 // 10_000 + 1) * 10_000
            wishes["cron"] = "*/10 * * * * *"
        else:
            origin = now_up + (delay_ms if delay_ms is not None else kind["interval_ms"] or 0)
            if kind["interval_ms"] is not None:
                wishes["every"] = kind["interval_ms"] / 1000
            if delay_ms is not None:
                wishes["delay"] = delay_ms / 1000
            elif kind["interval_ms"] is None:
                origin = now_ns // 1_000_000
        expires_at = None if lasts_ms is None else origin + lasts_ms
        if expires_at is not None:
            wishes["expires_at"] = datetime.fromtimestamp(expires_at / 1000, UTC)
        at_moment = delay_ms is not None and kind["interval_ms"] is not None and delay_ms > kind["interval_ms"]
        self.witness.new = Modelled(origin=origin, expires_at=expires_at, at_moment=at_moment, **kind)
        wishes["late"] = LatePolicy(mode=kind["missed"], catch_up=kind["catch_up"])
        wishes["retry"] = RetryPolicy(retries=kind["retries"], first_ms=RETRY_MS, factor=1.0, jitter=0.0)
        self.call(
            place,
            lambda scheduler: scheduler.add(
                "act", kind["args"], id=name, timeout=timeout_s, on_conflict=on_conflict, **wishes
            ),
        )

    def call(self, place: int, verb: Any) -> Any:
        """Call a verb somewhere; return the error if there is one."""
        process = self.caller(place)

        async def calling() -> Any:
            CALLED.set(True)
            try:
                return await verb(process.scheduler)
            except TickwheelError as error:
                return error

        try:
            return self.steps.run(process.loop, calling())
        except TimeoutError as error:
            raise AssertionError("\n".join([*self.witness.log[-40:], "", str(error)])) from None

    @rule(name=names, verb=st.sampled_from(VERBS), flag=st.booleans(), span=spans, place=st.integers(0, NODES_MAX))
    def act(self, name: str, verb: str, flag: bool, span: int, place: int) -> None:
        self.witness.note(f"{verb} of {name!r} by {self.caller(place).node.name}")
        self.witness.verdict = ("unknown", None)
        now_ns = self.clock.time_ns()
        now_up = -(-now_ns // 1_000_000)
        if verb == "cancel":
            answer = self.call(place, lambda scheduler: scheduler.cancel(name, run_only=flag))
        elif verb == "resume":
            answer = self.call(place, lambda scheduler: scheduler.resume(name, run_missed=flag))
        elif verb == "reschedule":
            self.witness.change = now_up + span
            answer = self.call(place, lambda scheduler: scheduler.reschedule(name, delay=span / 1000))
        elif verb == "update":
            args = {"does": ["return", "raise"], "n": span}
            modelled = self.witness.model.get(name)
            recurring = modelled is not None and modelled.interval_ms is not None
            every_ms, delay_ms = (5_000, None) if recurring else (None, span)
            self.witness.change = (args, every_ms, delay_ms) if flag else (args, None, None)
            when = ({"every": 5} if recurring else {"delay": span / 1000}) if flag else {}
            answer = self.call(place, lambda scheduler: scheduler.amend(name, args, **when))
        elif verb == "delete" and not flag:
            return
        else:
            answer = self.call(place, lambda scheduler: getattr(scheduler, verb)(name))
        self.check_answer(name, verb, answer)

    def check_answer(self, name: str, verb: str, answer: Any) -> None:
        """See that a verb raised what it has to, by the state it found."""
        state, came_to = self.witness.verdict
        expected: type | None = None
        if state == "unknown":
            expected = UnknownTask
        elif came_to is None:
            expected = TaskRunning if state == "running" else TaskFinished
        raised = type(answer) if isinstance(answer, Exception) else None
        if raised is not expected:
            self.witness.complain(f"{verb} of {name!r}, which was {state}, gave {answer!r}, not {expected}")
        elif verb == "cancel" and raised is None and state == "pending" and came_to and answer.status != "cancelled":
            self.witness.complain(f"cancel of {name!r}, which was pending, returned {answer.status}")
        elif verb == "cancel" and raised is None and state == "running" and came_to and not answer.cancel_requested:
            self.witness.complain(f"cancel of {name!r}, which was running, does not tell so")

    @precondition(lambda self: any(node.told for node in self.nodes))
    @rule()
    def tell(self) -> None:
        """Let handlers go on that hang."""
        for node in self.nodes:
            node.tell()

    @rule(seconds=passing)
    def pass_time(self, seconds: float) -> None:
        self.steps.pass_time(seconds)

    # -- nodes

    @precondition(lambda self: len(self.nodes) < NODES_MAX)
    @rule()
    def start(self) -> None:
        self.started += 1
        self.fault()
        node = Process(self, f"node {self.started}", run=True, latency_s=self.latency_s)
        self.witness.note(f"start {node.node.name}")
        self.nodes.append(node)
        self.steps.run(node.loop, node.scheduler.start())

    @precondition(lambda self: self.nodes)
    @rule(
        place=st.integers(0, NODES_MAX - 1), what=st.sampled_from(["kill", "stop", "stop at once", "suspend", "deaf"])
    )
    def befall(self, place: int, what: str) -> None:
        node = self.nodes[place % len(self.nodes)]
        self.witness.note(f"{what} {node.node.name}")
        self.fault()
        if what == "kill":
            node.node.dead = True
            self.nodes.remove(node)
            self.steps.kill(node.loop)
            self.bury(node)
        elif what == "suspend" and not node.node.suspended:
            node.node.suspended, node.node.suspended_ns = True, self.clock.monotonic_ns()
            self.steps.suspend(node.loop)
        elif what == "deaf":
            node.node.deaf = not node.node.deaf
        elif what.startswith("stop") and not node.node.suspended:
            self.stop(node, 2.0 if what == "stop" else 0.0)

    def stop(self, node: Process, grace_s: float) -> None:
        node.node.stopping = True
        self.steps.run(node.loop, node.scheduler.stop(grace_s))
        self.nodes.remove(node)
        node.node.dead = True
        self.steps.kill(node.loop)
        self.bury(node)
        self.fault()

    def bury(self, node: Process) -> None:
        """Let a store know that a node is dead, where that is not found out by leases that end."""
        if node.scheduler_store.timed_leases:
            return
        witness, node.node.lives_until = self.witness, 0
        leases = [lease for owner, lease in witness.owner.values() if owner is node.node]

        async def forget() -> None:
            await witness.store.release(leases)
            for name in node.node.ids:
                await witness.store.leave(name)

        self.steps.run(self.client.loop, forget())

    @precondition(lambda self: self.steps_clock)
    @rule(seconds=st.sampled_from([-3_600.0, -3_600.0, -20.0, -5.0, -0.4, 0.4, 5.0, 20.0, 3_600.0]))
    def step_clock(self, seconds: float) -> None:
        """Set the wall clock."""
        self.witness.note(f"the clock is set by {seconds:+g} s")
        self.fault()
        self.clock.step_wall(int(seconds * 1e9))
        self.witness.steps.append((self.clock.monotonic_ns(), int(seconds * 1000)))

    @precondition(lambda self: any(node.node.suspended for node in self.nodes))
    @rule()
    def wake(self) -> None:
        """Resume what is suspended."""
        for node in self.nodes:
            self.resume(node)

    def resume(self, node: Process) -> None:
        if node.node.suspended:
            self.witness.note(f"resume {node.node.name}")
            self.fault()
            node.node.suspended = False
            lasted_ms = (self.clock.monotonic_ns() - node.node.suspended_ns) // 1_000_000
            self.witness.resumed.append((self.clock.monotonic_ns(), lasted_ms))
            self.steps.resume(node.loop)

    @invariant()
    def all_is_well(self) -> None:
        if self.started:
            self.judge()


def check(opened: Any, examples: int, steps: int, *, steps_clock: bool = False) -> None:
    class Machine(EngineMachine):
        def open(self, clock: VirtualClock) -> Any:
            return opened(clock)

    Machine.steps_clock = steps_clock
    busy = [HealthCheck.too_slow, HealthCheck.data_too_large]  # a machine that is busy is not wrong
    chosen = settings(suppress_health_check=busy)
    if not FUZZING:
        # The same examples each time; `make fuzz` looks for others.
        chosen = settings(chosen, max_examples=examples, stateful_step_count=steps, derandomize=True)
    run_state_machine_as_test(Machine, settings=chosen)


def test_schedulers_on_memory_keep_the_promises() -> None:
    @contextmanager
    def fresh(clock: VirtualClock) -> Iterator[MemoryStore]:
        yield MemoryStore(now_ms=lambda: clock.time_ns() // 1_000_000, partitions=PARTITIONS)

    check(fresh, 30, 25)


def test_schedulers_keep_the_promises_when_the_clock_is_set() -> None:
    @contextmanager
    def fresh(clock: VirtualClock) -> Iterator[MemoryStore]:
        yield MemoryStore(now_ms=lambda: clock.time_ns() // 1_000_000, partitions=PARTITIONS, timed_leases=False)

    check(fresh, 30, 25, steps_clock=True)


def test_schedulers_on_sqlite_keep_the_promises() -> None:
    @contextmanager
    def fresh(clock: VirtualClock) -> Iterator[StillStore]:
        with TemporaryDirectory() as folder:
            path = Path(folder) / "tasks.db"
            store = StillStore(
                path,
                lambda: clock.time_ns() // 1_000_000,
                boottime_ns=clock.boottime_ns,
                partitions=PARTITIONS,
                node_locks=False,
            )
            try:
                yield store
            finally:
                store.end()

    check(fresh, 6, 20)
