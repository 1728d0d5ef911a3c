"""`Workers`: all pools behind one door, with room for so many runs and no more.

    workers = Workers(threads=8, processes=2, queue_max=1000)
    workers.begin(handler, task, tell)              # tell(task, outcome) is called once, when it is over
    result = await workers.run(handler, task)       # the same, for one who waits

A run waits for its turn, by priority and then first come, until its pool has a place and its handler is below its
limit. From the moment its function is called it has `timeout_ms`. What it comes to is told once: its result, what it
raised, or why it was stopped.

    run() --> waits --> runs --------------------------> result, or what the function raised
                |        |--- cancel(), close(grace) --> RunCancelled, when it is over or out of time
                |        |--- out of time -------------> RunTimedOut, when it is over; what does not end is stuck until
                |        |                               it does, and others have the place of a thread
                |        +--- its process is not ready, or dies ---> ProcessDied
                |--- cancel() -------------------------> RunCancelled
                |--- withdraw(), or its gate says no --> nothing: as if it had never been asked for
                +--- halt(), close() ------------------> WorkersClosed: it was not begun
"""

import asyncio
import logging
from asyncio import AbstractEventLoop, CancelledError, Future
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from contextvars import copy_context
from functools import partial
from typing import Any, Literal

from tickwheel.errors import (
    ForeignWorkers,
    InvalidWorkers,
    ProcessDied,
    RunCancelled,
    RunTimedOut,
    TaskRunning,
    WorkerNotStarted,
    WorkersClosed,
    WorkersFull,
)
from tickwheel.tasks import Flag, Handler, PoolName, Task
from tickwheel.tasks.registry import Registry
from tickwheel.timers.loop_timers import Call, LoopWheel, loop_wheel
from tickwheel.workers.arguments import fit
from tickwheel.workers.capacity import Capacity, EndRate, room_ahead
from tickwheel.workers.contract import Gate, Job, Outcome, Pool, Tell
from tickwheel.workers.forks import LOOPS
from tickwheel.workers.loop_pool import LoopPool
from tickwheel.workers.process_pool import ProcessPool, address
from tickwheel.workers.results import passable
from tickwheel.workers.run_queue import RunQueue
from tickwheel.workers.thread_pool import ThreadPool

__all__ = ["Workers"]

THREADS_MAX = 1024  # more wait for the interpreter's lock rather than for anything else
PROCESSES_MAX = 256  # each is an interpreter of some 20 MB
QUEUE_MAX = 1_000_000
START_S_MAX = 30.0  # for a process to start and import what it runs: large packages take 10 s from a cold disk
BEGIN_CHECK_S = 0.05  # between two looks whether a run has begun that is not out of time before
LOOP_SLOTS = 16  # runs that the loop begins in a moment; one a slot is lost if the process dies before
LOOP_AHEAD = 500  # runs that may wait for the loop to begin them, besides as many as ended lately: some 50 ms
ALARM_LATE_S = 0.01  # a run that ends within so much of its timeout may be over before its alarm rings
STUCK_AFTER_S = 1.0  # after its timeout, for a thread to look at its flag
WARN_AFTER_S = 30.0  # a run that was stopped and goes on for so long does not look at its flag

log = logging.getLogger("tickwheel.workers")


class Workers:
    """Runs handlers for one event loop. All of it is called on that loop."""

    def __init__(
        self,
        *,
        threads: int = 8,
        processes: int = 0,
        queue_max: int = 1000,
        warn_after_s: float = WARN_AFTER_S,
        stuck_after_s: float = STUCK_AFTER_S,
    ) -> None:
        for name, value, least, most in (
            ("threads", threads, 0, THREADS_MAX),
            ("processes", processes, 0, PROCESSES_MAX),
            ("queue_max", queue_max, 1, QUEUE_MAX),
        ):
            if not least <= value <= most:
                raise InvalidWorkers(f"{name} is from {least} to {most:,}, not {value!r}")
        self.on_free: Callable[[], None] | None = None  # called soon after runs are over, and their places free
        self.start_s_max = START_S_MAX  # a process that is not ready to run by then is killed
        self.stuck: set[str] = set()  # tasks whose functions ignore their timeout, on a thread or on the loop
        # Tasks whose functions are on threads of workers that were closed; workers of one store may share it.
        self.outliving: set[str] = set()
        self._queue_max = queue_max
        self._warn_after_s = warn_after_s
        self._stuck_after_s = stuck_after_s
        self._pools: dict[PoolName, Pool] = {"loop": LoopPool()}
        if threads:
            self._pools["thread"] = ThreadPool(threads)
        if processes:
            self._pools["process"] = ProcessPool(processes)
        self._lines: dict[PoolName, RunQueue] = {name: RunQueue() for name in self._pools}
        self._jobs: dict[str, Job] = {}  # whose outcome was not told yet, by task
        self._begun: dict[Job, Future[Any]] = {}  # that hold a place in their pool
        self._rates: defaultdict[str, EndRate] = defaultdict(EndRate)  # of pools, and of handlers that have a limit
        self._loop: AbstractEventLoop | None = None  # where it is at home, from the first run on
        self._alarms: LoopWheel | None = None  # of that loop
        self._unalarmed: list[Job] = []  # runs that have begun, and have no alarm yet
        self._context = copy_context()  # alarms run in it: one for all, rather than a copy for each
        self._short: set[str] = set()  # pools in which no worker could be started
        self._freed = False  # there is room, and `on_free` will be called
        self._halted = False
        self._closing: asyncio.Task[list[str]] | None = None

    @property
    def free(self) -> int:
        """Return how many more runs would be taken now."""
        free = self._queue_max - len(self._begun)
        for line in self._lines.values():
            free -= len(line.waiting)
        return max(0, free)

    def capacity(self, registry: Registry, claimed: Mapping[str, int]) -> Capacity:
        """Return what could begin now or in a moment, besides tasks that are claimed already, counted by handler."""
        now_s = asyncio.get_running_loop().time()

        def worth_claiming(name: str, room: int) -> int:
            rate = self._rates.get(name)
            return room_ahead(room, 0 if rate is None else rate.expected(now_s))

        def room_of(handler: Handler) -> tuple[int, int]:
            room = self._lines[handler.runs_in].room_of(handler)
            return room, worth_claiming(f"handler {handler.name}", room)

        free = {name: pool.free - len(self._lines[name]) for name, pool in self._pools.items()}
        free["loop"] = LOOP_AHEAD
        pools = {name: worth_claiming(name, room) for name, room in free.items()}
        free["loop"] = LOOP_SLOTS
        return Capacity(registry, pools, free, room_of, claimed)

    def can_run(self, handler: Handler) -> bool:
        """Tell whether there is a pool for a handler, full or not."""
        return handler.runs_in in self._pools

    def has(self, task_id: str) -> bool:
        """Tell whether a run of a task waits or goes on here."""
        return task_id in self._jobs

    def obstacle(
        self, handler: Handler
    ) -> Literal["no_capacity", "limit_reached", "no_threads", "no_processes"] | None:
        """Say what keeps a run of a handler from beginning now; None if nothing does."""
        line, pool = self._lines.get(handler.runs_in), self._pools.get(handler.runs_in)
        if line is None or pool is None:
            return "no_threads" if handler.runs_in == "thread" else "no_processes"
        if handler.concurrency is not None and line.room_of(handler) <= 0:
            return "limit_reached"
        return None if self.free and pool.free > len(line) else "no_capacity"

    def begin(self, handler: Handler, task: Task, tell: Tell, gate: Gate | None = None) -> Job:
        """Run a handler for a task when it is its turn, and tell what it came to; raise if it cannot be taken in.

        A gate is asked before it begins, and may refuse.
        """
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._check_home()
        if self._halted:
            raise WorkersClosed
        name = handler.runs_in
        if name not in self._pools:
            raise InvalidWorkers(f"handler {handler.name!r} runs in pool {name!r}, which these workers do not have")
        if name == "process":
            address(handler.function)
        stop = Flag()
        job = Job(handler, task, fit(handler, task, stop), stop, tell, loop, gate)
        if task.id in self._jobs:
            raise TaskRunning(task.id)
        # Each holds a place, waits for one, or both: counted twice, there are mostly enough left.
        if len(self._jobs) + len(self._begun) >= self._queue_max and not self.free:
            raise WorkersFull(self._queue_max)
        self._jobs[task.id] = job
        if self._pools[name].free and self._lines[name].begin(job):
            self._start(job)
        else:
            self._lines[name].add(job)
            self._fill(name)
        return job

    async def run(self, handler: Handler, task: Task) -> Any:
        """Begin a run and wait for it; return its result, or raise what it raised."""
        told: Future[Outcome] = asyncio.get_running_loop().create_future()

        def tell(_: Task, outcome: Outcome) -> None:
            if not told.done():  # or cancelled, together with who waits for it
                told.set_result(outcome)

        job = self.begin(handler, task, tell)
        try:
            value, error, *_ = await told
        except CancelledError:
            self._stop(job, RunCancelled(task.id))
            await self._unwind(job)
            self._give_up(job)
            raise
        if error is not None:
            raise error
        return value

    def cancel(self, task_id: str) -> bool:
        """Cancel what waits or runs for a task; False if nothing does, or it is too late."""
        job = self._jobs.get(task_id)
        if job is None or (job.over is not None and job.over.done()):
            return False
        self._stop(job, RunCancelled(task_id))
        if job.over is None:
            self._give_up(job)
        return isinstance(job.error, RunCancelled)

    def withdraw(self, task_id: str) -> bool:
        """Take back a run that waits for its turn, without an outcome; False if there is none, or it has begun."""
        job = self._jobs.get(task_id)
        if job is None or job.over is not None:
            return False
        self._lines[job.pool].remove(job)
        del self._jobs[task_id]
        return True

    def halt(self) -> None:
        """Begin no more runs; what waits for its turn is told `WorkersClosed`, and what runs goes on."""
        self._halted = True
        for line in self._lines.values():
            for job in line.clear():
                job.error = WorkersClosed()
                self._give_up(job)

    async def close(self, grace_s: float = 0.0) -> list[str]:
        """Begin no more runs, give those that run a time of grace, stop them, and return which tasks they were for."""
        if self._closing is None:
            self._check_home()
            self.halt()
            self._closing = asyncio.get_running_loop().create_task(self._close(grace_s))
        return await asyncio.shield(self._closing)

    def _check_home(self) -> AbstractEventLoop:
        loop = asyncio.get_running_loop()  # in a forked child there is none, or another one
        if self._loop is None:
            self._loop, self._alarms = loop, loop_wheel(loop)
            LOOPS.add(loop)
        if loop is not self._loop:
            raise ForeignWorkers  # threads do not survive a fork, nor futures a change of loops
        return loop

    # -- from one state to the next

    def _fill(self, name: PoolName) -> None:
        """Begin what a pool has places for."""
        pool, line = self._pools[name], self._lines[name]
        while pool.free and (job := line.next()) is not None:
            self._start(job)

    def _start(self, job: Job) -> None:
        """Begin a run that is counted as running, if its gate lets it."""
        if job.gate is not None and not job.surroundings.run(job.gate.admit):
            self._lines[job.pool].done(job)
            self._jobs.pop(job.task.id, None)
            return
        try:
            if job.pool == "process":
                job.placed_s = job.loop.time()
            job.over = self._pools[job.pool].start(job, self._end)
        except Exception as error:  # noqa: BLE001 - the system has no more threads, for now
            self._lines[job.pool].done(job)
            job.error = WorkerNotStarted(job.pool, f"{type(error).__name__}: {error}")
            self._note_shortage(Outcome(error=job.error))
            self._give_up(job)
        else:
            self._begun[job] = job.over
            self._unalarmed.append(job)
            if len(self._unalarmed) == 1:
                job.loop.call_soon(self._set_alarms_soon, job.loop)

    def _set_alarms_soon(self, loop: AbstractEventLoop) -> None:
        """Set the alarms of what has begun until now, after the first steps of all that."""
        jobs, self._unalarmed = self._unalarmed, []
        loop.call_soon(self._set_alarms, jobs)

    def _set_alarms(self, jobs: Iterable[Job]) -> None:
        """Set the alarms of runs that have begun lately; most are over by now, and need none."""
        for job in jobs:
            if job not in self._begun or self._jobs.get(job.task.id) is not job:
                continue
            if job.began_s is None and job.over is not None and job.over.done():
                self._run_out(job)  # other code has cancelled its task before its first step
            else:
                wait_s = job.task.timeout_ms / 1000
                job.alarm = self._alarm(min(self.start_s_max, wait_s), self._run_out, job)

    def _note_shortage(self, outcome: Outcome) -> None:
        """Say that no worker could be started, if that is the outcome; once, until one could be."""
        error = None if outcome.raised else outcome.error
        if type(error) is WorkerNotStarted and error.pool not in self._short:
            self._short.add(error.pool)
            log.warning("%s", error)

    def _alarm(self, wait_s: float, call: Callable[[Job], None], job: Job) -> Call:
        assert self._alarms is not None
        return self._alarms.call_later(wait_s, call, (job,), self._context)

    def _end(self, job: Job, outcome: Outcome) -> None:
        """Give the place of a run to the next, and tell what it came to."""
        if self._begun.pop(job, None) is None:
            return
        if self.stuck:
            self.stuck.discard(job.task.id)
        pool, line = job.pool, self._lines[job.pool]
        line.done(job)
        now_s = job.loop.time()
        if job.handler.concurrency is not None:
            self._rates[f"handler {job.handler.name}"].add(now_s)
        ending = self._rates[pool].add(now_s)
        if pool == "loop" and job.began_s is not None and job.error is None:
            # Its alarm cannot ring while the loop is blocked. What runs elsewhere may have ended in time all the same.
            timeout_s = job.task.timeout_ms / 1000
            if now_s - job.began_s > timeout_s + ALARM_LATE_S:
                job.error = RunTimedOut(job.task.id, timeout_s)
        if job.error is not None or outcome.error is not None:
            self._note_shortage(outcome)
            outcome = _told(job, outcome)
        elif self._short:
            self._short.discard(pool)
        self._tell(job, outcome)
        if line.waiting:
            self._fill(pool)
        # Its pool has places that nothing waits for, or will have in a moment.
        more = len(line.waiting) <= ending // 2 or self._pools[pool].free > 0
        if not self._freed and (more or job.handler.concurrency is not None):
            self._note_free(job.loop)

    def _note_free(self, loop: AbstractEventLoop) -> None:
        """Have `on_free` called, once for all runs that end in one step of the loop."""
        if self.on_free is not None:
            self._freed = True
            loop.call_soon(self._tell_free)

    def _tell_free(self) -> None:
        self._freed = False
        if self.on_free is not None:
            self.on_free()

    def _run_out(self, job: Job) -> None:
        """Stop a run that is out of time, and see to what does not end: it is stuck, unless it can be killed."""
        if job.over is None or job.over.done():
            # Unless it made it: other code has cancelled its task before its first step, or closed its coroutine.
            self._end(job, job.not_begun() if job.began_s is None else Outcome(error=CancelledError()))
            return
        pool = self._pools[job.pool]
        error: Exception
        if job.began_s is not None:
            left_s = job.began_s + job.task.timeout_ms / 1000 - job.loop.time()
            error = RunTimedOut(job.task.id, job.task.timeout_ms / 1000)
        else:  # its time counts from when it begins: a process has to start first
            left_s = BEGIN_CHECK_S
            if isinstance(pool, ProcessPool):
                left_s = min(left_s, job.placed_s + self.start_s_max - job.loop.time())
            error = ProcessDied(job.handler.name, job.task.id, None, not_ready_s=self.start_s_max)
        if left_s > 0:
            job.alarm = self._alarm(left_s, self._run_out, job)
            return
        self._stop(job, error)
        wait_s = self._stuck_after_s if isinstance(pool, ThreadPool) else pool.patience_s
        then = self._give_up if isinstance(pool, ProcessPool) else self._note_stuck
        job.alarm = self._alarm(wait_s, then, job)

    def _note_stuck(self, job: Job) -> None:
        """Say that a run ignores its timeout, and let others have its place if it has a thread."""
        if job.over is None or job.over.done():
            return
        self.stuck.add(job.task.id)
        pool = self._pools[job.pool]
        if isinstance(pool, ThreadPool):
            place = "another thread takes its place" if pool.replace(job) else "too many are stuck to replace it"
            advice = f"{place}; let the handler look at context.cancelled"
        else:
            advice = "let the handler end when it is cancelled"
        log.warning(
            "handler %r of task %r ignores its timeout of %g s: the task is stuck until it returns, and is not retried "
            "before; %s",
            job.handler.name,
            job.task.id,
            job.task.timeout_ms / 1000,
            advice,
        )
        self._fill(job.pool)
        self._note_free(job.loop)

    def _stop(self, job: Job, error: Exception) -> None:
        """Ask a run to stop, and decide what will be told of it; who asks first is right."""
        if job.error is None:
            job.error = error
        job.stop.set()
        if job.over is not None:
            self._pools[job.pool].stop(job, self._end)
        else:
            self._lines[job.pool].remove(job)

    async def _unwind(self, job: Job) -> None:
        """Let a run that was asked to stop do so, if its pool can see to that."""
        patience_s = self._pools[job.pool].patience_s
        if patience_s and job.over is not None and not job.over.done():
            await asyncio.wait((job.over,), timeout=patience_s)

    def _give_up(self, job: Job) -> None:
        """Wait no longer for a run that was asked to stop, or that never began."""
        self._tell(job, Outcome(error=job.error))

    def _tell(self, job: Job, outcome: Outcome) -> None:
        """Tell what a run came to, unless that was told before."""
        if self._jobs.get(job.task.id) is not job:
            return
        del self._jobs[job.task.id]
        if job.alarm is not None:
            job.alarm.cancel()
        if job in self._begun:
            self._watch(job)
        job.tell(job.task, outcome)

    def _watch(self, job: Job) -> None:
        """Say so if a run that nobody waits for holds on to its place."""
        if self._closing is None:
            warning = asyncio.get_running_loop().call_later(self._warn_after_s, self._warn, job)
            self._begun[job].add_done_callback(lambda _: warning.cancel())

    def _warn(self, job: Job) -> None:
        log.warning(
            "handler %r of task %r was stopped %g s ago and still runs: it keeps its place in pool %r until it "
            "returns; let it look at context.cancelled",
            job.handler.name,
            job.task.id,
            self._warn_after_s,
            job.pool,
        )

    async def _close(self, grace_s: float) -> list[str]:
        if self._begun:
            await asyncio.wait(self._begun.values(), timeout=grace_s)
        late = [job for job in self._begun if not self._begun[job].done()]
        for job in late:
            self._stop(job, RunCancelled(job.task.id, closing=True))
        # Tasks and processes go when they are told to; a thread, and what has ignored its timeout, is left to itself.
        await asyncio.gather(*(self._unwind(job) for job in late if job.task.id not in self.stuck))
        for job in late:
            if job.pool == "thread":
                self._note_outliving(job)
            self._give_up(job)
        for pool in self._pools.values():
            await pool.close()
        return sorted(job.task.id for job in late)

    def _note_outliving(self, job: Job) -> None:
        """Remember a run that holds a thread until it returns, which nothing of these workers is there to see."""
        self.outliving.add(job.task.id)
        job.on_return = partial(self.outliving.discard, job.task.id)
        if job.returned:
            self.outliving.discard(job.task.id)


def _told(job: Job, outcome: Outcome) -> Outcome:
    """Return the outcome to report for a run that was asked to stop, or that raised."""
    value, error, raised, trace = outcome
    if job.error is not None and not (error is None and job.began_s is not None and _was_cancelled(job.error)):
        return Outcome(value, job.error)
    return Outcome(value, None if error is None else passable(job.handler.name, job.task.id, error), raised, trace)


def _was_cancelled(error: Exception) -> bool:
    """Tell whether a run was asked to stop for its own sake: what returns all the same has done its work."""
    return isinstance(error, RunCancelled) and not error.closing
