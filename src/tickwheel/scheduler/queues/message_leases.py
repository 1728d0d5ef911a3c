"""What consumers have leased: each task with a token, and until when it is theirs.

    leased --ack-------------> completed, or the next occurrence
     | ^ |---nack------------> tried again by its retry policy, or failed
     +-+ |---lease runs out--> the same
    extend `-cancelled-------> cancelled; its token is good for nothing any more

A token is good for one attempt at one task. It is known to the consumer and to this process, and to no store: if the
process dies, the task is an orphan and is offered again, with another token.
"""

import asyncio
from collections.abc import Container
from hmac import compare_digest
from random import Random
from secrets import token_urlsafe
from typing import Any, Final

import msgspec

from tickwheel.clock import Clock
from tickwheel.errors import InvalidLease, LeaseLost, StoreError, UnknownTask
from tickwheel.observe.events import Events, Kind
from tickwheel.scheduler.background_calls import BackgroundCalls
from tickwheel.scheduler.engine.completer import Completer, event_for_failure
from tickwheel.stores.contract import Store
from tickwheel.tasks import transitions
from tickwheel.tasks.fields import invalid
from tickwheel.tasks.record import Task
from tickwheel.workers.results import plain

__all__ = ["LEASED_MAX", "Message", "MessageLeases", "check_lease", "check_token", "check_wait"]

LEASED_MAX: Final = 10_000  # messages at once; as many as a store looks up in one call
LEASE_MS_MIN: Final = 100  # it has to reach the consumer and come back
LEASE_MS_MAX: Final = 12 * 3_600_000  # what takes longer extends its lease, to show that it is alive
WAIT_MS_MAX: Final = 60_000  # what stands between a consumer and here cuts longer ones off
TOKEN_BYTES: Final = 18  # more than anyone can guess


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """A task as a consumer gets it."""

    id: str
    queue: str
    args: dict[str, Any]
    meta: dict[str, Any]
    attempt: int
    due: int  # milliseconds since 1970: the moment it is for
    lease_token: str
    expires: int  # when the lease ends


def check_lease(lease_ms: int) -> int:
    """Return how long a lease is, or say why it cannot be."""
    if not LEASE_MS_MIN <= lease_ms <= LEASE_MS_MAX:
        raise InvalidLease(f"a lease is from {LEASE_MS_MIN} ms to {LEASE_MS_MAX // 3_600_000} h, not {lease_ms:,} ms")
    return lease_ms


def check_token(token: object) -> str:
    """Return the token of a lease that may be there: any text."""
    if not isinstance(token, str):
        raise invalid("token", token, "the lease_token of a message", InvalidLease)
    return str.__str__(token)


def check_wait(wait_ms: int) -> int:
    """Return how long a consumer waits, or say why it cannot."""
    if wait_ms > WAIT_MS_MAX:
        raise InvalidLease(f"wait for up to {WAIT_MS_MAX // 1000} s, and then ask again; not for {wait_ms / 1000:g} s")
    return wait_ms


class LeasedMessage:
    """A task that a consumer has, and until when."""

    __slots__ = ("alarm", "ends_ns", "settling", "task", "token")

    def __init__(self, task: Task, ends_ns: int) -> None:
        self.task = task
        self.token = token_urlsafe(TOKEN_BYTES)
        self.ends_ns = ends_ns  # by the monotonic clock
        self.alarm: asyncio.TimerHandle | None = None
        self.settling = False  # what became of it is being written


class MessageLeases:
    """The tasks of one engine that are leased."""

    def __init__(
        self,
        store: Store,
        completer: Completer,
        *,
        clock: Clock,
        events: Events,
        rng: Random,
        background: BackgroundCalls,
    ) -> None:
        self._store = store
        self._completer = completer
        self._clock = clock
        self._events = events
        self._rng = rng
        self._background = background
        self._leased: dict[str, LeasedMessage] = {}

    def __len__(self) -> int:
        return len(self._leased)

    def __contains__(self, task_id: str) -> bool:
        return task_id in self._leased

    def holds(self, task: Task) -> bool:
        """Tell whether a running task is leased here, by this claim of it and not by an earlier one."""
        leased = self._leased.get(task.id)
        return leased is not None and leased.task.attempt == task.attempt

    def queue_of(self, task_id: str) -> str | None:
        """Return the queue that a task is leased from; None if it is not leased."""
        leased = self._leased.get(task_id)
        return None if leased is None else leased.task.queue

    def ids(self, partitions: Container[int]) -> list[str]:
        """List what is leased of some partitions."""
        return [task_id for task_id, leased in self._leased.items() if leased.task.partition in partitions]

    def partitions(self) -> set[int]:
        """Return in which partitions something is leased."""
        return {leased.task.partition for leased in self._leased.values()}

    # -- begin

    def hold(self, task: Task, lease_ms: int) -> Message:
        """Lease a task that was claimed."""
        leased = self._leased[task.id] = LeasedMessage(task, self._clock.monotonic_ns() + lease_ms * 1_000_000)
        self._arm(leased)
        now = self._completer.now()
        self._events.emit("started", task, now, late_ms=now - task.run_at)
        return Message(
            id=task.id,
            queue=task.queue or "",
            args=task.args,
            meta=task.meta,
            attempt=task.attempt,
            due=task.occurrence_at,
            lease_token=leased.token,
            expires=now + lease_ms,
        )

    async def extend(self, task_id: str, token: str, lease_ms: int) -> int:
        """Let a lease end so long from now; return when that is."""
        leased = await self._mine(task_id, token)
        [there] = await self._store.get([task_id])
        if there is not None and there.cancel_requested:
            self.cancel(task_id)  # by another process, and not heard of yet
        if not self._is_good(task_id, token):  # it may have ended meanwhile
            raise LeaseLost(task_id)
        leased.ends_ns = self._clock.monotonic_ns() + lease_ms * 1_000_000
        self._arm(leased)
        return self._completer.now() + lease_ms

    async def _mine(self, task_id: str, token: str) -> LeasedMessage:
        """Return what is leased with a token, without waiting; if nothing is, say why."""
        if self._is_good(task_id, token):
            return self._leased[task_id]
        [there] = await self._store.get([task_id])
        raise UnknownTask(task_id) if there is None else LeaseLost(task_id)

    def _is_good(self, task_id: str, token: str) -> bool:
        leased = self._leased.get(task_id)
        if leased is None or leased.settling:
            return False
        return compare_digest(leased.token.encode(), token.encode(errors="replace"))

    def _arm(self, leased: LeasedMessage) -> None:
        """See to it that a lease ends in time."""
        if leased.alarm is not None:
            leased.alarm.cancel()
        wait_s = max(leased.ends_ns - self._clock.monotonic_ns(), 0) / 1e9
        leased.alarm = asyncio.get_running_loop().call_later(wait_s, self._run_out, leased)

    # -- end, as the consumer says

    async def ack(self, task_id: str, token: str) -> Task:
        """Complete a task, and return it as it is stored then."""
        leased = await self._mine(task_id, token)
        return await self._settle(leased, transitions.succeed(leased.task, None, self._completer.now()), "completed")

    async def nack(self, task_id: str, token: str, reason: str, delay_ms: int | None) -> Task:
        """Give a task back that could not be done: to be tried again by its retry policy, or after a delay."""
        leased = await self._mine(task_id, token)
        ended = transitions.fail(leased.task, plain(reason), self._completer.now_up(), self._rng.random(), delay_ms)
        return await self._settle(leased, ended, event_for_failure(ended[0]))

    async def _settle(self, leased: LeasedMessage, outcome: transitions.Ended, kind: Kind) -> Task:
        leased.settling = True
        return await asyncio.shield(self._background.begin(self._write(leased, outcome, kind)))

    async def _write(self, leased: LeasedMessage, outcome: transitions.Ended, kind: Kind) -> Task:
        """Write what became of a task; if that cannot be done, it stays leased as it was."""
        finish = self._completer.finish_for(leased.task, outcome)
        try:
            accepted = finish is not None and all(await self._store.finish([finish]))
        except BaseException:
            self._arm(leased)
            raise
        finally:
            leased.settling = False
        self.release(leased.task.id)
        now = self._completer.now()
        if finish is None or not accepted:
            self._events.emit("lost", leased.task, now, reason="another owner has it, or it was written before")
            raise LeaseLost(leased.task.id)
        self._events.emit(kind, finish.task, now, run=finish.run)
        stored = await self._stored(finish.task)
        self._completer.on_finished(stored.id, stored)
        return stored

    async def _stored(self, written: Task) -> Task:
        """Read a task as it was stored: merged with what others asked for meanwhile."""
        try:
            [stored] = await self._store.get([written.id])
        except StoreError:
            return written  # it is settled all the same
        return written if stored is None else stored  # someone may have deleted it already

    # -- end, without the consumer

    def release(self, task_id: str) -> Task | None:
        """End a lease and return its task; None if it has ended, or what became of it is being written."""
        leased = self._leased.get(task_id)
        if leased is None or leased.settling:
            return None
        if leased.alarm is not None:
            leased.alarm.cancel()
        return self._leased.pop(task_id).task

    def cancel(self, task_id: str) -> None:
        """Take a task from whoever has leased it."""
        task = self.release(task_id)
        if task is not None:
            ended = transitions.stop(task, "cancelled while it was leased", self._completer.now())
            self._completer.settle(task, ended, "cancelled")

    def _run_out(self, leased: LeasedMessage) -> None:
        if self._leased.get(leased.task.id) is leased and (task := self.release(leased.task.id)) is not None:
            ended = transitions.fail(task, "its lease ran out", self._completer.now(), self._rng.random())
            self._completer.settle(task, ended, event_for_failure(ended[0]))

    def close(self) -> None:
        """Let what is leased be offered again, by whoever goes on."""
        for task_id in list(self._leased):
            task = self.release(task_id)
            if task is not None:
                self._completer.interrupt(task)
