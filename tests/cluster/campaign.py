"""A campaign: three nodes on a store, a stream of tasks, and one thing after another that goes wrong, by chance.

    kill      a node is killed (SIGKILL), and another one started
    storm     nodes are killed one after the other, also while they start and take over
    suspend   a node is suspended beyond its lease, wherever it is, and goes on
    halt      a node suspends itself before or after a step, and goes on
    replace   a node joins, and another leaves in order
    cut       a node cannot reach the store, and is told so
    silence   a node cannot reach the store, and is told nothing; what it had sent arrives later
    slow      everything between a node and the store takes longer
    clock     a node joins whose wall clock is an hour off, and leaves
    step      the machine's clock, which is that of a file, is set forward or back by some seconds, and right again
    stop      the store's server is stopped, in each way that it can be, and started again
    full      the disk of a file is full for a while
    peek      another program opens the file with the standard library's sqlite3, reads, and blocks writers for a moment
    hostile   tasks are added that must be refused, or that must not disturb others

After each of them the nodes have to come to fair shares again, and in the end the checker looks at every task.
"""

import asyncio
import signal
import sqlite3
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from itertools import count
from random import Random
from typing import Final

from tests.cluster.checker import EVERYBODY, Fault, Verdict
from tests.cluster.halting import HALTS, Halt
from tests.cluster.nodes import Nodes, now_ns, until
from tests.cluster.places import Place
from tests.cluster.stream import Stream
from tests.faketime import step_clock
from tests.proxy import Proxy
from tickwheel.errors import StoreError, StoreFileInUse, TickwheelError
from tickwheel.tasks import Status, Task

__all__ = ["FAULTS", "NETWORK_FAULTS", "Campaign"]

NODES: Final = 3
SETTLE_S: Final = 60.0  # for what takes some leases
HOUR_S: Final = 3600
STEP_S_MAX: Final = 5.0  # what is due after a step back has to be waited for
DELAY_S_MAX: Final = 0.1
STORM_KILLS: Final = 5  # of nodes, and as many of those that take their place
STORM_PAUSE_S: Final = 0.4  # about as long as a node takes to start

# Reads everything, as somebody who looks into the file would, and holds up those who write for a moment.
PEEK: Final = """
import sqlite3, sys
file = sqlite3.connect(sys.argv[1], timeout=30, isolation_level=None)
file.execute("SELECT count(*), max(length(body)) FROM tasks").fetchall()
file.execute("BEGIN IMMEDIATE")
file.execute("ROLLBACK")
file.close()
"""

# What add() must refuse without a trace.
REFUSED: Final[tuple[dict[str, object], ...]] = (
    {"priority": True},
    {"priority": 10**6},
    {"times": 2.5, "every": 1},
    {"retries": 1.5},
    {"retries": -1},
    {"at_most_once": "no"},
    {"delay": float("nan")},
    {"delay": -1},
    {"delay": 10**30},
    {"cron": "61 * * * *"},
    {"tags": "vip"},
    {"meta": {7: "user"}},
    {"args": {"seconds": object()}},
    {"timeout": 0},
    {"id": ""},
    {"id": "x" * 100_000},
)

ODD: Final = ("raise", "unprintable", "exit", "result", "deep", "huge", "interrupt")  # see node.py


class Campaign:
    """One campaign on one store."""

    def __init__(self, nodes: Nodes, place: Place, chance: Random, ways: AsyncExitStack, per_s: float) -> None:
        self._nodes = nodes
        self._place = place
        self._chance = chance
        self._ways = ways  # closes the proxies in the end
        self._lease_s = nodes.lease_ms / 1000
        self._names = (f"n{number}" for number in count())
        self._proxies: dict[str, Proxy] = {}
        self.kills = 0
        self.odd: list[str] = []  # tasks whose handlers do what no handler should
        self.alive: list[str] = []
        self.faults: list[Fault] = []
        self.stream = Stream(nodes, chance, per_s)

    @classmethod
    @asynccontextmanager
    async def on(cls, nodes: Nodes, place: Place, seed: int, per_s: float) -> AsyncIterator["Campaign"]:
        """Begin with three nodes, and so many tasks a second."""
        async with AsyncExitStack() as ways:
            campaign = cls(nodes, place, Random(seed), ways, per_s)
            await asyncio.gather(*(campaign.join() for _ in range(NODES)))
            await campaign.settle()
            yield campaign

    def possible(self) -> list[str]:
        """Return what can go wrong here."""
        place = self._place
        missing = {
            *(NETWORK_FAULTS if place.address is None else ()),
            *(FILE_FAULTS if place.file is None else ()),
            *({"full"} if place.full is None else ()),
            *({"step"} if not step_clock(0) else ()),
        }
        return [what for what in FAULTS if what not in missing]

    async def suffer(self, what: str) -> None:
        """Let something go wrong, and see that all is well again afterwards."""
        since, begun_ns = len(self.faults), now_ns()
        await FAULTS[what](self)
        await self.settle()
        # A node that was away is well again when it has its share; a dead one does nothing any more.
        names = {fault.name for fault in self.faults[since:]}
        self.faults[since:] = [Fault(what, name, begun_ns, now_ns()) for name in names]

    async def settle(self) -> None:
        """Wait until the nodes that are alive have fair shares, and nobody else has any."""
        partitions, living = self._nodes.store.partitions, len(self.alive)
        least = partitions // living

        async def is_fair() -> bool:
            held = await self._nodes.held_now()
            return held is not None and set(held) == set(self.alive) and min(map(len, held.values())) >= least

        await until(is_fair, SETTLE_S)

    async def judge(self) -> Verdict:
        """Wait until nothing is left to do, and hold everything against what was promised."""
        verdict = await self.stream.judged(self.faults, SETTLE_S)
        odd = await self._nodes.as_they_are(self.odd)
        verdict.missed += [task_id for task_id, task in odd.items() if task is None or task.status is not Status.FAILED]
        return verdict

    # -- nodes

    async def join(self, *, halt: Halt | None = None, clock_off_s: int = 0) -> str:
        """Start a node, on a way of its own to the store."""
        name = next(self._names)
        url = None
        if self._place.address is not None:
            way = Proxy.to(self._place.address, *self._place.others)
            self._proxies[name] = proxy = await self._ways.enter_async_context(way)
            url = self._place.via(proxy.port)
        await self._nodes.start(name, url=url, halt=halt, clock_off_s=clock_off_s)
        self.alive.append(name)
        return name

    async def leave(self, name: str) -> None:
        """Let a node go in order."""
        self.alive.remove(name)
        assert await self._nodes.end(name, signal.SIGTERM) == 0, f"{name} did not leave in order"

    def _anyone(self) -> str:
        return self._chance.choice(self.alive)

    def _blame(self, name: str) -> None:
        self.faults.append(Fault("", name, now_ns(), now_ns()))

    async def _beyond_a_lease(self) -> None:
        await asyncio.sleep(self._lease_s * self._chance.uniform(0.5, 2.0))

    # -- what goes wrong

    async def kill(self) -> None:
        await self._kill(self._anyone())
        await self.join()

    async def _kill(self, name: str) -> None:
        self._blame(name)
        self.alive.remove(name)
        self.kills += 1
        await self._nodes.end(name, signal.SIGKILL)

    async def storm(self) -> None:
        for _ in range(STORM_KILLS):
            joining = asyncio.create_task(self.join())
            await asyncio.sleep(self._chance.uniform(0.0, STORM_PAUSE_S))
            await self._kill(self._anyone())
            await joining
            await self._kill(self.alive[-1])  # just when it takes over
            await self.join()

    async def suspend(self) -> None:
        name = self._anyone()
        self._blame(name)
        self._nodes.send(name, signal.SIGSTOP)
        if not await asyncio.to_thread(self._place.writable):
            self._blame(EVERYBODY)  # suspended in the middle of a write, where one writes at a time
        await self._beyond_a_lease()
        self._nodes.send(name, signal.SIGCONT)

    async def halt(self) -> None:
        old = self._anyone()
        step = self._chance.choice(HALTS)._replace(turn=self._chance.randrange(1, 4))
        name = await self.join(halt=step)
        self._blame(name)
        await self.leave(old)
        await self._nodes.until_halted(name)
        await self._beyond_a_lease()
        self._nodes.send(name, signal.SIGCONT)

    async def replace(self) -> None:
        old = self._anyone()
        if self._chance.random() < 0.5:
            await self.join()
            await self.leave(old)
        else:
            await self.leave(old)
            await self.join()

    async def cut(self) -> None:
        name = self._anyone()
        self._blame(name)
        self._proxies[name].cut()
        await self._beyond_a_lease()
        self._proxies[name].mend()

    async def silence(self) -> None:
        name = self._anyone()
        self._blame(name)
        self._proxies[name].fall_silent()
        await self._beyond_a_lease()
        self._proxies[name].mend()

    async def slow(self) -> None:
        name = self._anyone()
        self._blame(name)
        self._proxies[name].delay_s = self._chance.uniform(0.01, DELAY_S_MAX)
        await self._beyond_a_lease()
        self._proxies[name].mend()

    async def clock(self) -> None:
        name = await self.join(clock_off_s=self._chance.choice((-HOUR_S, HOUR_S)))
        await self.settle()
        await self._beyond_a_lease()
        await self.leave(name)

    async def step(self) -> None:
        self._blame(EVERYBODY)
        by_s = self._chance.choice((-1, 1)) * self._chance.uniform(1.5, STEP_S_MAX)
        for offset_s, change_s in ((by_s, by_s), (0.0, -by_s)):
            change_ns = int(change_s * 1e9)
            if change_s > 0:
                self._nodes.wall.step(change_ns, now_ns())  # noted rather too early than too late: see the checker
            step_clock(offset_s)
            if change_s < 0:
                self._nodes.wall.step(change_ns, now_ns())
            await self._beyond_a_lease()

    async def stop(self) -> None:
        assert self._place.start is not None
        self._blame(EVERYBODY)
        stop = self._chance.choice([*self._place.stops.values()])
        await asyncio.to_thread(stop)
        await self._beyond_a_lease()
        await asyncio.to_thread(self._place.start)
        await self._nodes.until_begun(*self.alive)  # leases may outlast a server: they do not tell that all is well

    async def full(self) -> None:
        assert self._place.full is not None
        self._blame(EVERYBODY)
        with self._place.full():
            await self._beyond_a_lease()

    async def peek(self) -> None:
        assert self._place.file is not None
        self._blame(EVERYBODY)  # nobody writes meanwhile
        peeking = await asyncio.create_subprocess_exec(sys.executable, "-c", PEEK, str(self._place.file))
        assert await peeking.wait() == 0
        with suppress(StoreFileInUse):  # a second SQLite library in a process that has the file open
            sqlite3.connect(self._place.file).close()
            raise AssertionError("the file was opened by a second SQLite library in one process")

    async def hostile(self) -> None:
        adder = self._nodes.adder
        for number, fields in enumerate(REFUSED):
            with suppress(TickwheelError):
                await adder.add("work", **{"id": f"refused-{number}", **fields})  # type: ignore[arg-type] # on purpose
                raise AssertionError(f"accepted: {fields}")
        for what in ODD:
            task = await self._until_added(what)
            self.odd.append(task.id)

    async def _until_added(self, what: str) -> Task:
        while True:
            try:
                return await self._nodes.adder.add("odd", {"what": what}, retries=1)
            except StoreError:
                await asyncio.sleep(1)


FAULTS: Final[dict[str, Callable[[Campaign], Awaitable[None]]]] = {
    "kill": Campaign.kill,
    "storm": Campaign.storm,
    "suspend": Campaign.suspend,
    "halt": Campaign.halt,
    "replace": Campaign.replace,
    "cut": Campaign.cut,
    "silence": Campaign.silence,
    "slow": Campaign.slow,
    "clock": Campaign.clock,
    "step": Campaign.step,
    "stop": Campaign.stop,
    "full": Campaign.full,
    "peek": Campaign.peek,
    "hostile": Campaign.hostile,
}
NETWORK_FAULTS: Final = {"cut", "silence", "slow", "clock", "stop"}  # a file has no network, and no clock of its own
FILE_FAULTS: Final = {"full", "peek", "step"}
