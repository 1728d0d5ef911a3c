"""A witness between schedulers and their store: holds all that happens to tasks against the reference model.

    scheduler --claim, finish, cancel, ...--> WitnessedStore --> store
                                                   |
    handlers  --begins, ends----------------> Witness: the model takes the same step, and both are compared

What becomes of a run is not read from what the engine writes: handlers say what they did, and nodes what they went
through. Where the promises leave a choice (a run that is cancelled and interrupted at once), one of the outcomes has to
fit. What does not is kept as a complaint, for the engine survives exceptions.
"""

import asyncio
import math
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextvars import ContextVar
from copy import deepcopy
from dataclasses import replace
from typing import Any, Final

from tickwheel import VirtualClock
from tickwheel.errors import TickwheelError, VersionMismatch
from tickwheel.stores.contract import MEMBERS, Change, Filter, Finish, Lease
from tickwheel.tasks.record import Run, Task
from tickwheel.testing.stores import reference
from tickwheel.testing.stores.promises import foreseen, seen
from tickwheel.testing.stores.reference import Modelled

__all__ = ["AHEAD_MS", "CALLED", "RETRY_MS", "Flight", "Node", "Witness", "WitnessedStore"]

AHEAD_MS: Final = 50
RETRY_MS: Final = 1_500
CRASH_MS: Final = 1_000
STEP_MS: Final = 1_000
LATE_NS: Final = 10_000_000  # by which a run may end after its timeout and count as in time
DECIDED_NS: Final = 500_000_000  # before a correction that was decided is written
HISTORY: Final = 1000
CALLED: Final[ContextVar[bool]] = ContextVar("CALLED", default=False)  # a verb was called: a node does not by itself


Step = Callable[[Modelled, int], Modelled | None]  # takes the moment; returns what takes the place of a task
OUTCOMES: Final[dict[str, Step]] = {
    "returned": lambda model, now: model.end("completed", now),
    "raised": lambda model, now: model.fail(now, RETRY_MS),
    "snoozed": lambda model, now: model.snooze(now, 2_000),
    "retry after": lambda model, now: model.fail(now, 3_000),
    "failed": lambda model, now: model.fail_for_good(now),
}


class Node:
    """What befalls one process."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.stopping = False
        self.dead = False
        self.suspended = False
        self.suspended_ns = 0  # since when
        self.lives_until: float = 0  # as far as the store knows
        self.deaf = False  # notifications are lost
        self.passed: list[tuple[int, int]] = []  # when it noticed that the clock was set forward: from when to when
        self.ids: set[str] = set()  # by which the store knows it

    @property
    def works(self) -> bool:
        return not (self.dead or self.suspended or self.stopping)


class Flight:
    """A claimed task, as far as it got."""

    def __init__(self, node: Node, epoch: int, ns: int, timeout_ms: int) -> None:
        self.node, self.epoch, self.ns, self.timeout_ms = node, epoch, ns, timeout_ms
        self.begun = False
        self.stopped = False  # it was cancelled while it ran
        self.word: str | None = None  # what its handler came to
        self.began_ns = 0
        self.ended_ns = 0


class Witness:
    """The model of all tasks, and what is known of nodes, claims and runs."""

    def __init__(self, store: Any, clock: VirtualClock) -> None:
        self.store = store
        self.clock = clock
        self.model: dict[str, Modelled] = {}
        self.changed_ns: dict[str, int] = {}
        self.flights: dict[tuple[str, int], Flight] = {}
        self.nodes: list[Node] = []
        self.stale: list[tuple[str, Flight]] = []  # runs that go on after another node took over
        self.begins: Counter[str] = Counter()
        self.owner: dict[int, tuple[Node, Lease]] = {}
        self.owned_since: dict[tuple[Node, int], int] = {}
        self.absent_since: dict[tuple[Node, int], int] = {}  # until when tasks of a partition were known to be run
        self.complaints: list[str] = []
        self.log: list[str] = []
        self.verdict: tuple[str, object] = ("", None)  # the state that the last verb found, and what it came to
        self.new: Modelled | None = None  # what is being added
        self.change: Any = None  # how a task is being changed
        self.waits_until_ns: dict[str, int] = {}  # until when those wait at the least that are to be tried again
        self.steps: list[tuple[int, int]] = []  # of the clock: when, and by how many milliseconds
        self.resumed: list[tuple[int, int]] = []  # nodes: when, and after how many milliseconds
        self.over = False

    @property
    def now(self) -> int:
        return self.clock.time_ns() // 1_000_000

    def note(self, text: str) -> None:
        self.log.append(f"{self.clock.monotonic_ns() / 1e9:10.3f} {text}")

    def led_to_it(self) -> list[str]:
        """Return what happened before the first complaint."""
        first = next((number for number, line in enumerate(self.log) if " !! " in line), len(self.log))
        return self.log[max(first - 40, 0) : first + 1]

    def complain(self, text: str) -> None:
        self.note(f"!! {text}")
        self.complaints.append(text)

    def is_held(self) -> bool:
        """Tell whether something is kept for a node that does not work, as far as the store knows."""
        leased = {owner: lease.expires_at or 0 for owner, lease in self.owner.values()}
        return any(not each.works and self.now < max(each.lives_until, leased.get(each, 0)) for each in self.nodes)

    # -- handlers

    def flight(self, name: str) -> Flight | None:
        """Return the latest claim of a task that is not settled."""
        return max(((key[1], each) for key, each in self.flights.items() if key[0] == name), default=(0, None))[1]

    def begin(self, node: Node, name: str, attempt: int, partition: int, args: dict[str, Any]) -> Flight:
        """Witness the first line of a handler."""
        flight = self.flights.get((name, attempt))
        self.begins[name] += 1
        what = f"{name!r} begins on {node.name}, attempt {attempt}"
        self.note(what)
        if flight is None or flight.node is not node:
            self.complain(f"{what}, which has not claimed it")
            return Flight(node, 0, 0, 0)
        if flight.begun:
            self.complain(f"{what}, for the second time")
        flight.begun, flight.began_ns = True, self.clock.monotonic_ns()
        owner, lease = self.owner[partition]
        if owner is not node or lease.epoch != flight.epoch:
            self.complain(f"{what}, which does not own it any more: {owner.name} does")
            return flight
        for trouble in self.troubles(self.model[name], node, partition, args):
            self.complain(f"{what}{trouble}")
        running = [run for (other, _), run in self.flights.items() if other == name and run.begun and run.word is None]
        if any(run is not flight and run.node.works and run.epoch == lease.epoch for run in running):
            self.complain(f"{what}, while another run goes on")
        return flight

    def troubles(self, modelled: Modelled, node: Node, partition: int, args: dict[str, Any]) -> Iterator[str]:
        """Begin a task in the model, and tell what is wrong with that."""
        if modelled.state != "running":
            yield f", and is {modelled.state}"
        if self.now < modelled.due_at:
            yield f", {modelled.due_at - self.now} ms early"
        if args != modelled.args:
            yield f" with {args}, not {modelled.args}"
        came_to, _ = modelled.begin(self.now, self.missed_before(node, partition, modelled))
        if came_to != "begun":
            yield f", which should be {came_to}"
        if modelled.at_most_once and modelled.begun > 1:
            yield ", and runs at most once"

    def missed_before(self, node: Node, partition: int, modelled: Modelled) -> int:
        """Return the moment before which a task was missed if it was due, as a node sees it when it begins that."""
        place = (node, partition)
        waited = modelled.occurrence_at <= self.absent_since.get(place, 0)
        passed = [until for since, until in node.passed if modelled.occurrence_at > since]
        return max([0 if waited else self.owned_since.get(place, 0), *passed])

    def end(self, flight: Flight, name: str, word: str) -> None:
        """Witness the last line of a handler."""
        if self.over:
            return
        self.note(f"{name!r} ends on {flight.node.name}: {word}")
        flight.word, flight.ended_ns = word, self.clock.monotonic_ns()

    # -- verbs

    def verb(self, caller: Node, name: str, expected: object, before: Task | None, after: Task | None) -> None:
        """Witness a verb that the model was given as well."""
        state = self.verdict[0]
        self.verdict = (state, expected)
        changed = before is None or after is None or before.version != after.version
        if changed != bool(expected):
            self.complain(f"the verb {'changed' if changed else 'did not change'} {name!r}: {state}, {expected}")
        self.changed_ns[name] = self.clock.monotonic_ns()
        flight = self.flight(name)
        if state == "running" and flight is not None and flight.node is caller and not flight.begun:
            self.note(f"{name!r} counts as running, and has not begun")

    def added(self, name: str, on_conflict: str, error: type[TickwheelError] | None) -> None:
        assert self.new is not None
        after, expected = reference.add(self.model.get(name), self.new, on_conflict)
        if after is not None:
            self.model[name] = after
        self.changed_ns[name] = self.clock.monotonic_ns()
        if error is not expected:
            self.complain(f"add of {name!r} raised {error}, not {expected}")

    # -- owners

    def claimed(self, node: Node, leases: Sequence[Lease], tasks: Sequence[Task], until: int) -> None:
        epochs = {lease.partition: lease.epoch for lease in leases}
        for task in tasks:
            modelled = self.model[task.id]
            self.note(f"{task.id!r} claimed by {node.name}, due in {modelled.due_at - self.now} ms")
            # What runs at most once is due when it is claimed, if not yet when that was asked for. A node that was not
            # told that a task became such a one claims it ahead, and gives that up at once.
            told = not node.deaf and getattr(self.store, "tells", True)
            if not modelled.claim(max(until - AHEAD_MS, self.now) if modelled.at_most_once and told else until):
                self.complain(f"{task.id!r} was claimed, which is {modelled.listed}, due at {modelled.due_at}")
            claimed_ns = self.clock.monotonic_ns()
            self.flights[task.id, task.attempt] = Flight(node, epochs[task.partition], claimed_ns, task.timeout_ms)

    def finished(self, node: Node, finish: Finish, accepted: bool, there: Task | None, runs: list[Run]) -> None:
        name, attempt = finish.task.id, finish.task.attempt
        flight, modelled = self.flights.get((name, attempt)), self.model.get(name)
        if flight is None or modelled is None:
            if accepted:
                self.complain(f"{name!r}, attempt {attempt}, was finished twice")
            return
        if not accepted:
            owner, lease = self.owner[finish.lease.partition]
            if owner is node and modelled.state == "running" and self.flight(name) is flight:
                self.complain(f"what became of {name!r} was rejected, and {node.name} owns it")
            self.note(f"{name!r} of {node.name} was rejected; {owner.name} owns it, epoch {lease.epoch}")
            return
        assert there is not None
        del self.flights[name, attempt]
        if flight.begun and flight.word is None:
            self.stale.append((name, flight))
        self.changed_ns[name] = self.clock.monotonic_ns()
        decided = finish.run.finished_at if finish.run is not None else finish.task.finished_at or self.now
        tried = []
        for label, step in self.outcomes(node, flight, modelled, finish):
            for moment in dict.fromkeys([decided, self.now]):
                model = copy_of(modelled)
                model = step(model, moment) or model
                if (difference := self.difference(model, modelled.back_at, flight, there, runs)) is None:
                    self.note(f"{name!r} {label}: {model.listed}, due in {model.due_at - self.now} ms")
                    self.model[name] = model
                    if model.active:
                        ended_ns = flight.ended_ns or self.clock.monotonic_ns()
                        self.waits_until_ns[name] = ended_ns + (model.due_at - decided) * 1_000_000
                    return
                tried.append(f"{label}: {difference}")
        self.complain("\n    ".join([f"{name!r} ended otherwise than it may; from {modelled}", *tried]))

    def difference(
        self, model: Modelled, back_at: int | None, flight: Flight, there: Task, runs: list[Run]
    ) -> str | None:
        """Say how a task that ended is otherwise than the model.

        If the clock was set back since its claim or shortly before, the time of its series may be that from before, and
        to be corrected yet.
        """
        found = differ(model, there, runs)
        set_back = any(ns >= flight.ns - DECIDED_NS and step_ms < 0 for ns, step_ms in self.steps)
        if found is None or not set_back or there.run_at != back_at:
            return found
        model.due_at = model.occurrence_at = model.point = there.run_at
        return differ(model, there, runs)

    def outcomes(self, node: Node, flight: Flight, modelled: Modelled, finish: Finish) -> Iterator[tuple[str, Step]]:
        """List what may become of a claimed task, by what is known of its run."""
        if node is not flight.node:
            wait_ms = finish.task.run_at - (finish.run.finished_at if finish.run is not None else 0)
            usual_ms = CRASH_MS * 2**modelled.crashes
            fair = usual_ms // 2 <= wait_ms <= usual_ms * 3 // 2
            yield "crashed", lambda model, now: model.crash(now, wait_ms if fair else usual_ms)
        elif not flight.begun:
            yield from self.unbegun(node, modelled, finish)
        elif flight.word is None:
            self.complain(f"{finish.task.id!r} was finished, and its handler still runs")
        elif not flight.stopped:
            # A node that was suspended or blocked could not stop it in time, and looks at the clock when it ends.
            over_ns = flight.ended_ns - flight.began_ns - flight.timeout_ms * 1_000_000
            if over_ns <= LATE_NS:
                yield flight.word, OUTCOMES[flight.word]
            if over_ns > 0:
                yield "timed out", OUTCOMES["raised"]
        else:
            yield from self.stopped(node, flight, modelled)

    def unbegun(self, node: Node, modelled: Modelled, finish: Finish) -> Iterator[tuple[str, Step]]:
        """List what may become of a task whose handler was not called."""
        yield "released", lambda model, now: model.release(now)

        def release_set_back(model: Modelled, now: int) -> Modelled | None:
            replaced = model.release(now)
            self.set_back(finish.task.id, replaced or model, finish.task)
            return replaced

        yield "released, since the clock was set back", release_set_back
        partition = finish.lease.partition
        missed = self.missed_before(node, partition, modelled)
        if any(copy_of(modelled).begin(now, missed)[0] != "begun" for now in self.moments()):
            yield "not begun", lambda model, now: model.begin(now, missed)[1]
        if modelled.asked_to_stop:
            yield "cancelled before it began", lambda model, now: model.end("cancelled", now, None)
            yield "cancelled as it began", lambda model, now: model.stop(now)

    def stopped(self, node: Node, flight: Flight, modelled: Modelled) -> Iterator[tuple[str, Step]]:
        """List what may become of a run that was cancelled on its loop; for whom, it cannot know."""
        if flight.word == "returned":
            yield flight.word, OUTCOMES[flight.word]
        elif modelled.asked_to_stop:
            yield "stopped", lambda model, now: model.stop(now)
        if node.stopping:
            yield "interrupted", lambda model, now: model.interrupt(now)
        if self.clock.monotonic_ns() - flight.began_ns >= flight.timeout_ms * 1_000_000:
            yield "timed out", OUTCOMES["raised"]

    # -- compare

    async def compare(self) -> None:
        """Compare all that can be seen."""
        found = {each.id: each for each in (await self.store.query(Filter(), None, 100)).tasks}
        if found.keys() != self.model.keys():
            self.complain(f"there are {sorted(found)}, not {sorted(self.model)}")
            return
        for name, modelled in self.model.items():
            difference = differ(modelled, found[name], await self.store.history(name, HISTORY))
            if difference is not None:
                self.complain(f"{name!r} is otherwise: {difference}")
        counts = {status.value: count for status, count in (await self.store.counts()).items() if count}
        if counts != Counter(each.listed for each in self.model.values()):
            self.complain(f"the counts are {counts}")

    def look_for_the_lost(self, slack_ns: int) -> None:
        """Complain of what should have gone on by now; for calm times."""
        ns, now = self.clock.monotonic_ns(), self.now
        for name, modelled in self.model.items():
            waited_ns = ns - self.changed_ns[name]
            if modelled.stalls(now, slack_ns // 1_000_000) or self.waits_on(name, modelled, slack_ns):
                self.complain(f"{name!r} waits for another {(modelled.due_at - now) / 1000} s: {modelled}")
            if modelled.listed == "pending":
                waited_ns = min(waited_ns, (now - modelled.due_at) * 1_000_000)
                # Where an earlier run goes on, the next one waits for it.
                if waited_ns > slack_ns and not any(
                    each == name and run.word is None and run.node.works for each, run in self.stale
                ):
                    self.complain(f"{name!r} is due and does not begin for {waited_ns / 1e9} s")
            flight = self.flight(name)
            if modelled.state != "running" or flight is None:
                continue
            if flight.node.dead:
                self.complain(f"{name!r} is not recovered, whose {flight.node.name} died")
            elif not flight.begun and ns - flight.ns > slack_ns:
                self.complain(f"{name!r} is claimed and does not begin for {(ns - flight.ns) / 1e9} s")
            elif flight.word is not None and ns - flight.ended_ns > slack_ns:
                self.complain(f"{name!r} has ended, and that is not written for {(ns - flight.ended_ns) / 1e9} s")

    # -- the clock

    def noticed(self, node: Node, step_s: float) -> None:
        """Witness that a node noticed a step: what was due before one forward was missed."""
        self.note(f"{node.name} notices that the clock was set by {step_s:+g} s")
        if step_s > 0:
            node.passed.append((self.now - round(step_s * 1000), self.now))
            return
        since = self.now - STEP_MS
        node.passed = [(begin, min(end, since)) for begin, end in node.passed if begin < since]
        self.owned_since |= {key: min(at, since) for key, at in self.owned_since.items() if key[0] is node}

    def set_back(self, name: str, modelled: Modelled, after: Task) -> bool:
        """Let a task wait for another time after the clock was set back; return whether it may be this one."""
        before, waits, due_at = modelled.due_at, modelled.active and not modelled.forced, after.run_at
        if not any(modelled.set_back(due_at, now, after.next_at) for now in self.moments()):
            return False
        left_ns = self.waits_until_ns.get(name, 0) - self.clock.monotonic_ns()
        if waits and (due_at - self.now + 1) * 1_000_000 < left_ns:
            self.complain(f"{name!r} is tried again {left_ns / 1e9 - (due_at - self.now) / 1e3} s early")
        self.note(f"{name!r} is due {(before - due_at) / 1000} s earlier, in {due_at - self.now} ms")
        return True

    def set_back_later(self, modelled: Modelled, due_at: int) -> bool:
        """Let what follows a run wait for another time after the clock was set back; return whether it may."""
        new = None if modelled.later is None else modelled.later[2]
        if new is None or not any(new.set_back(due_at, now) for now in self.moments()):
            return False
        new.origin = due_at
        return True

    def moments(self) -> Iterator[int]:
        """List what the clock shows, and what it showed before its last steps: they may come after a decision.

        So may a suspension of the node that has decided.
        """
        now, recent_ns = self.now, self.clock.monotonic_ns() - DECIDED_NS
        lasted = [0, *(suspended_ms for ns, suspended_ms in self.resumed if ns >= recent_ns)]
        since_ns = recent_ns - max(lasted) * 1_000_000
        for step_ms in [0, *(step_ms for ns, step_ms in reversed(self.steps) if ns >= since_ns)]:
            now -= step_ms
            yield from (now - suspended_ms for suspended_ms in lasted)

    def corrected(self, before: Task | None, after: Task | None) -> None:
        """Witness that a node changed the time of a task."""
        if before is None or after is None or before.version == after.version:
            return
        if before.following != after.following and after.following is not None:
            self.note(f"{after.id!r} is to follow from {after.following.task.run_at - self.now} ms on")
            if not self.set_back_later(self.model[after.id], after.following.task.run_at):
                self.complain(f"what follows {after.id!r} is {after.following}: {self.model[after.id]}, {before}")
            if (before.run_at, before.next_at) == (after.run_at, after.next_at):
                return
        if not self.set_back(after.id, self.model[after.id], after):
            self.complain(
                f"{after.id!r} is due in {after.run_at - self.now} ms instead: {self.model[after.id]}, {before}"
            )

    def waits_on(self, name: str, modelled: Modelled, slack_ns: int) -> bool:
        """Tell whether a task waits to be tried again for longer than it has to."""
        if modelled.listed != "pending" or not modelled.active or modelled.at_moment:
            return False
        by_clock = not (modelled.forced or modelled.by_interval)
        if by_clock and (not modelled.interrupted or self.now < modelled.occurrence_at + slack_ns // 1_000_000):
            return False  # when another attempt at a task without a last run was decided, is not written down
        waited = self.clock.monotonic_ns() > self.waits_until_ns.get(name, 0) + slack_ns
        return waited and modelled.due_at > self.now


def copy_of(modelled: Modelled) -> Modelled:
    """Return a copy to try a step with."""
    return replace(modelled, history=list(modelled.history), later=deepcopy(modelled.later))


def differ(modelled: Modelled, there: Task, runs: Sequence[Run]) -> str | None:
    """Say in what a task in the store is not as in the model."""
    if seen(there) != foreseen(modelled):
        return f"the store has {seen(there)}, the model {foreseen(modelled)}"
    history = [run.status.value for run in reversed(runs)]
    expected = modelled.history[-HISTORY:]
    return None if history == expected else f"the history is {history}, the model has {expected}"


class WitnessedStore:
    """A store as one node sees it: as slow as it is said to be, and under the eyes of the witness."""

    def __init__(self, witness: Witness, node: Node, latency_s: float) -> None:
        self._witness = witness
        self._node = node
        self._latency_s = latency_s
        self._recovered: set[tuple[int, int]] = set()  # partitions and epochs that were looked through
        witness.nodes.append(node)
        self._store: Any = witness.store
        self.partitions = self._store.partitions
        self.keeps_skipped = True
        self.finish_by_epoch = True
        self.timed_leases = getattr(witness.store, "timed_leases", True) is not False

    async def close(self) -> None:
        """Leave it to the others."""

    def changes(self, partitions: Sequence[int]) -> AsyncIterator[dict[int, Change]]:
        """Tell of changes, unless notifications are lost."""
        return self._heard(self._store.changes(partitions))

    async def _heard(self, changes: AsyncIterator[dict[int, Change]]) -> AsyncIterator[dict[int, Change]]:
        async for news in changes:
            if not self._node.deaf:
                yield news
            elif MEMBERS in news:  # a store that knows which nodes live does not lose that
                yield {MEMBERS: news[MEMBERS]}

    def running_changes(self) -> Any:
        """Count what is told of running tasks, unless notifications are lost."""
        return {} if self._node.deaf else self._store.running_changes()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        saw = getattr(self, f"_saw_{name}", None)

        async def call(*args: Any, **options: Any) -> Any:
            if name == "orphans":
                self._recovers(args[0])
            if name == "claim" and args[2] > self._witness.now + AHEAD_MS:
                self._witness.complain(f"{args[1]} are claimed until {args[2]}, farther ahead than {AHEAD_MS} ms")
            if name == "amend":
                options["now_up"] = -(-self._witness.clock.time_ns() // 1_000_000) if CALLED.get() else None
            if self._latency_s:
                await asyncio.sleep(self._latency_s)
            # From here to the answer nobody else has a turn: the store does not wait for anything.
            answer = await found(*args, **options) if saw is None else await saw(found, *args, **options)
            if self._latency_s:
                await asyncio.sleep(self._latency_s)
            return answer

        return call

    def _recovers(self, leases: Sequence[Lease]) -> None:
        for lease in leases:
            if (lease.partition, lease.epoch) not in self._recovered:
                self._recovered.add((lease.partition, lease.epoch))
                self._witness.owned_since[self._node, lease.partition] = self._witness.now
                self._witness.absent_since[self._node, lease.partition] = lease.checkpoint

    async def _saw_heartbeat(self, found: Any, node: str, ttl_ms: int, *published: Any) -> list[str]:
        living: list[str] = await found(node, ttl_ms, *published)
        self._node.ids.add(node)
        self._node.lives_until = self._witness.now + ttl_ms if self.timed_leases else math.inf
        return living

    async def _saw_acquire(self, found: Any, *args: Any) -> list[Lease]:
        leases: list[Lease] = await found(*args)
        for lease in leases:
            self._witness.note(f"{self._node.name} owns partition {lease.partition}, epoch {lease.epoch}")
            self._witness.owner[lease.partition] = (self._node, lease)
        return leases

    async def _saw_renew(self, found: Any, *args: Any) -> list[Lease]:
        leases: list[Lease] = await found(*args)
        self._witness.owner.update((lease.partition, (self._node, lease)) for lease in leases)
        return leases

    async def _saw_claim(self, found: Any, leases: Sequence[Lease], ids: Sequence[str], until: int) -> list[Task]:
        claimed: list[Task] = await found(leases, ids, until)
        self._witness.claimed(self._node, leases, claimed, until)
        return claimed

    async def _saw_finish(self, found: Any, finishes: Sequence[Finish]) -> list[bool]:
        accepted: list[bool] = await found(finishes)
        for finish, written in zip(finishes, accepted, strict=True):
            [there] = await self._store.get([finish.task.id])
            runs = await self._store.history(finish.task.id, HISTORY)
            self._witness.finished(self._node, finish, written, there, runs)
        return accepted

    async def _saw_add(self, found: Any, tasks: Sequence[Task], on_conflict: str) -> Any:
        [task] = tasks
        try:
            answer = await found(tasks, on_conflict)
        except TickwheelError as error:
            self._witness.added(task.id, on_conflict, type(error))
            raise
        self._witness.added(task.id, on_conflict, None)
        return answer

    async def _saw_verb(self, name: str, call: Any, step: Callable[[Modelled], object]) -> Any:
        witness = self._witness
        [before] = await self._store.get([name])
        if before is None:
            return await call
        modelled = witness.model[name]
        witness.verdict = (modelled.state, None)
        failed: TickwheelError | None = None
        answer = None
        try:
            answer = await call
        except VersionMismatch:
            raise
        except TickwheelError as error:
            failed = error
        expected = step(modelled)
        [after] = await self._store.get([name])
        witness.verb(self._node, name, expected, before, after)
        if failed is not None:
            raise failed
        return answer

    async def _saw_cancel(self, found: Any, ids: Sequence[str], reason: str, *, run_only: bool) -> Any:
        call = found(ids, reason, run_only=run_only)
        return await self._saw_verb(ids[0], call, lambda model: model.cancel(run_only=run_only))

    async def _saw_pause(self, found: Any, ids: Sequence[str]) -> Any:
        return await self._saw_verb(ids[0], found(ids), lambda model: model.pause())

    async def _saw_resume(self, found: Any, ids: Sequence[str], *, run_missed: bool) -> Any:
        call, now, witness = found(ids, run_missed=run_missed), self._witness.now, self._witness

        async def resume() -> Any:
            answer = await call
            [there] = await self._store.get(ids)
            moved.append(there)
            return answer

        moved: list[Task | None] = []

        def step(model: Modelled) -> object:
            changed = model.resume(now, run_missed=run_missed)
            if changed and moved and moved[0] is not None and moved[0].run_at != model.due_at:
                witness.set_back(ids[0], model, moved[0])
            return changed

        return await self._saw_verb(ids[0], resume(), step)

    async def _saw_run_now(self, found: Any, ids: Sequence[str]) -> Any:
        return await self._saw_verb(ids[0], found(ids), lambda model: model.run_now(self._witness.now))

    async def _saw_revive(self, found: Any, ids: Sequence[str], run_at: int) -> Any:
        return await self._saw_verb(ids[0], found(ids, run_at), lambda model: model.retry(run_at))

    async def _saw_reschedule(self, found: Any, name: str, run_at: int) -> Any:
        if run_at != self._witness.change:
            self._witness.complain(f"{name!r} is rescheduled to {run_at}, not {self._witness.change}")
        now_ns = self._witness.clock.monotonic_ns()
        self._witness.waits_until_ns[name] = now_ns + (run_at - self._witness.now) * 1_000_000
        return await self._saw_verb(name, found(name, run_at), lambda model: model.reschedule(run_at))

    async def _saw_amend(self, found: Any, tasks: Sequence[Task], *, now_up: int | None) -> Any:
        if now_up is None:
            return await self._saw_correction(found, tasks)
        args, every_ms, delay_ms = self._witness.change
        every = None if every_ms is None else (every_ms, now_up + every_ms)
        moment = None if delay_ms is None else now_up + delay_ms
        return await self._saw_verb(tasks[0].id, found(tasks), lambda model: model.update(args, every, moment=moment))

    async def _saw_correction(self, found: Any, tasks: Sequence[Task]) -> Any:
        ids = [task.id for task in tasks]
        before = await self._store.get(ids)
        answer = await found(tasks)
        for pair in zip(before, await self._store.get(ids), strict=True):
            self._witness.corrected(*pair)
        return answer

    async def _saw_remove(self, found: Any, ids: Sequence[str]) -> Any:
        def remove(modelled: Modelled) -> object:
            if modelled.state == "running":
                return None
            del self._witness.model[ids[0]]
            return True

        return await self._saw_verb(ids[0], found(ids), remove)
