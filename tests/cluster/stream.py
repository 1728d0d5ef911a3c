"""Tasks that are added all the time, whatever happens, and what was promised of each.

Each is added again and again until it is acknowledged. Some are sent twice at the same time, some are cancelled and
some moved, just when they are due, some are to run at most once, and of some only so many at once.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from random import Random
from typing import Final

from tests.cluster.checker import EVERYBODY, Fault, Target, Verdict, judge
from tests.cluster.node import NARROW
from tests.cluster.nodes import PATIENCE_S, Nodes, now_ns
from tickwheel.errors import StoreError, TaskFinished, TaskRunning
from tickwheel.tasks import Status, Task

__all__ = ["PER_S", "Stream"]

WORKERS: Final = 8
PER_S: Final = 80.0  # tasks
AGAIN_S: Final = 0.05  # after an add that was not acknowledged
DELAY_S_MAX: Final = 0.6
RUN_S: Final = 0.02
NARROW_RUN_S: Final = 0.15  # so that there are often more than may run at once
CRASHES_MAX: Final = 1_000  # no task is to blame for what its nodes suffer
SPREAD_S: Final = 0.06  # of a cancel or a move around the moment it races with: claims are made 50 ms ahead


class Stream:
    """A stream of tasks, by chance, and the promises that were made."""

    def __init__(self, nodes: Nodes, chance: Random, per_s: float = PER_S) -> None:
        self._nodes = nodes
        self._chance = chance
        self._pause_s = WORKERS / per_s
        self._ended = asyncio.Event()
        self._racing: set[asyncio.Task[None]] = set()
        self._stalls: list[Fault] = []
        self.targets: dict[str, Target] = {}

    @asynccontextmanager
    async def flowing(self) -> AsyncIterator[None]:
        """Add tasks meanwhile."""
        adding = [asyncio.create_task(self._add(worker)) for worker in range(WORKERS)]
        try:
            yield
        finally:
            self._ended.set()  # broken off, it might add tasks without knowing of it
            await asyncio.gather(*adding, *self._racing)

    async def judged(self, faults: Sequence[Fault], patience_s: float = PATIENCE_S) -> Verdict:
        """Wait until nothing is left to do, or for so long, and hold everything against what was promised."""
        with suppress(TimeoutError):  # what is not done then is missed
            await self._nodes.until_over(patience_s)
        tasks = await self._nodes.as_they_are(self.targets)
        verdict = judge(
            self.targets,
            list(tasks.values()),
            self._nodes.told(),
            [*faults, *self._stalls],
            wall=self._nodes.wall,
            lease_ms=self._nodes.lease_ms,
        )
        self._nodes.keep_evidence(tasks[each] for each in sorted(verdict.broken))
        return verdict

    async def _add(self, worker: int) -> None:
        number = 0
        while not self._ended.is_set():
            await self._add_one(f"task-{worker}-{number}")
            number += 1
            await asyncio.sleep(self._pause_s)

    async def _add_one(self, task_id: str) -> None:
        delay_s = self._chance.random() * DELAY_S_MAX
        fate = self._chance.random()
        times = 3 if fate < 0.05 else 1
        once = 0.05 <= fate < 0.25
        narrow = 0.25 <= fate < 0.35
        added = await asyncio.gather(
            *(self._until_acknowledged(task_id, delay_s, once=once, narrow=narrow) for _ in range(times))
        )
        assert len({task.run_at for task in added}) == 1, "they are one task"
        limit = NARROW if narrow else None
        self.targets[task_id] = Target(added[0].run_at, at_most_once=once, limit=limit)
        self._nodes.acknowledged.append(task_id)
        if fate > 0.9:
            race = self._cancel if fate > 0.95 else self._move
            racing = asyncio.create_task(race(task_id, delay_s + self._chance.uniform(-SPREAD_S, SPREAD_S)))
            self._racing.add(racing)
            racing.add_done_callback(self._racing.discard)

    async def _until_acknowledged(self, task_id: str, delay_s: float, *, once: bool, narrow: bool) -> Task:
        handler, args = ("narrow", {"seconds": NARROW_RUN_S}) if narrow else ("work", {"seconds": RUN_S})
        while True:
            begun_ns = now_ns()
            try:
                return await self._nodes.adder.add(
                    handler,
                    args,
                    id=task_id,
                    delay=delay_s,
                    at_most_once=once,
                    max_crashes=CRASHES_MAX,
                    on_conflict="keep",
                )
            except StoreError:
                await asyncio.sleep(AGAIN_S)
            finally:
                # A disk that keeps the store waiting keeps everybody from renewing leases: three times in each.
                if now_ns() - begun_ns > self._nodes.lease_ms * 1_000_000 // 3:
                    self._stalls.append(Fault("stall", EVERYBODY, begun_ns, now_ns()))

    async def _cancel(self, task_id: str, after_s: float) -> None:
        target = self.targets[task_id]
        await asyncio.sleep(max(after_s, 0))
        try:
            task = await self._nodes.adder.cancel(task_id)
        except StoreError:
            target.certain = False
            return
        if task.status is Status.CANCELLED:
            target.cancelled_ns = now_ns()
        elif task.status is Status.RUNNING:
            target.certain = False  # it was asked to stop, and may or may not hear of it in time

    async def _move(self, task_id: str, after_s: float) -> None:
        await asyncio.sleep(max(after_s, 0))
        asked_ns = now_ns()
        try:
            moved = await self._nodes.adder.reschedule(task_id, delay=0.3)
        except (TaskRunning, TaskFinished):
            return
        except StoreError:
            # It was moved or not: either time is right, and the one it has had is the earlier.
            return
        self.targets[task_id].move(moved.run_at, asked_ns, now_ns())
