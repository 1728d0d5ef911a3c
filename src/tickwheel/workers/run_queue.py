"""Who is next: higher priority first, then first come, and nobody in the way of others.

A run whose handler is at its limit steps aside until one of that handler's runs is over, and comes back to where it
stood:

    ready    a1  a2  b1  a3  c1         a may have one run at once, and none of a, b, c runs
    next     a1, then b1, c1            a2 and a3 step aside
    done     a1: a2 is ready again, before anything that came after it
"""

from collections import Counter
from heapq import heapify, heappop, heappush

from tickwheel.tasks import Handler
from tickwheel.workers.contract import Job

__all__ = ["RunQueue"]

Place = tuple[int, int, Job]  # lower comes first

GONE_MIN = 64  # fewer that gave up their place are not worth sweeping


class RunQueue:
    """The runs that wait for a pool, and how many runs each handler has."""

    def __init__(self) -> None:
        self._ready: list[Place] = []
        self._aside: dict[str, list[Place]] = {}
        self._running: dict[str, int] = {}
        self.waiting: set[Job] = set()  # to be looked at only
        self._waiting_of: Counter[str] = Counter()  # by handler
        self._gone = 0  # places in the heaps whose runs gave them up
        self._came = 0

    def __len__(self) -> int:
        return len(self.waiting)

    def add(self, job: Job) -> None:
        """Let a run wait."""
        self._came += 1
        self.waiting.add(job)
        self._waiting_of[job.handler.name] += 1
        heappush(self._ready, (-job.task.priority, self._came, job))

    def begin(self, job: Job) -> bool:
        """Count a run as running without waiting; False if others wait, or its handler is at its limit."""
        name, limit = job.handler.name, job.handler.concurrency
        running = self._running.get(name, 0)
        if self.waiting or (limit is not None and running >= limit):
            return False
        self._running[name] = running + 1
        return True

    def remove(self, job: Job) -> bool:
        """Let a run give up its place; False if it does not wait."""
        if job not in self.waiting:
            return False
        self._leave(job)
        self._gone += 1
        if self._gone > max(GONE_MIN, len(self.waiting)):
            self._sweep()
        self._recall(job.handler.name)  # it may have been the one that was called back
        return True

    def next(self) -> Job | None:
        """Take out the run that may begin now, and count it as running; None if there is none."""
        while self._ready:
            place = heappop(self._ready)
            job = place[2]
            if job not in self.waiting:
                self._gone -= 1
                continue
            name, limit = job.handler.name, job.handler.concurrency
            running = self._running.get(name, 0)
            if limit is not None and running >= limit:
                heappush(self._aside.setdefault(name, []), place)
                continue
            self._leave(job)
            self._running[name] = running + 1
            return job
        return None

    def done(self, job: Job) -> None:
        """Count a run as over, and call back one that waits for that."""
        name = job.handler.name
        self._running[name] -= 1
        if not self._running[name]:
            del self._running[name]
        if self._aside:
            self._recall(name)

    def clear(self) -> list[Job]:
        """Send everyone away who waits."""
        jobs = list(self.waiting)
        self.waiting.clear()
        self._waiting_of.clear()
        self._sweep()
        return jobs

    def room_of(self, handler: Handler) -> int:
        """Return how many more runs of a limited handler could begin, if all that wait did."""
        assert handler.concurrency is not None
        return handler.concurrency - self._running.get(handler.name, 0) - self._waiting_of[handler.name]

    def _leave(self, job: Job) -> None:
        self.waiting.remove(job)
        name = job.handler.name
        self._waiting_of[name] -= 1
        if not self._waiting_of[name]:
            del self._waiting_of[name]

    def _recall(self, name: str) -> None:
        places = self._aside.get(name, [])
        while places:
            place = heappop(places)
            if place[2] in self.waiting:
                heappush(self._ready, place)
                break
            self._gone -= 1
        if not places:
            self._aside.pop(name, None)

    def _sweep(self) -> None:
        for places in (self._ready, *self._aside.values()):
            places[:] = [place for place in places if place[2] in self.waiting]
            heapify(places)
        self._aside = {name: places for name, places in self._aside.items() if places}
        self._gone = 0
