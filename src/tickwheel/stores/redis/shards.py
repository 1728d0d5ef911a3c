"""What can be changed by one script: everything on one server, and a partition in a cluster.

    one server      one shard, 0, of all partitions
    a cluster       as many shards as partitions, each on one of its servers

A message goes to each shard that it concerns, and all at once. Whether what they wrote has reached the replicas is
asked right behind them, on the same connection, if the URL says so.
"""

import asyncio
import math
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Any, Final, Protocol

import msgspec
from redis.exceptions import NoScriptError

from tickwheel.errors import StoreClosed, StoreUnavailable
from tickwheel.stores.redis.address import Address
from tickwheel.stores.redis.connections import Command, Connections, Place
from tickwheel.stores.redis.failures import AWAY, told
from tickwheel.stores.redis.greeting import Greeter
from tickwheel.stores.redis.keys import SERVERS_CLOCK, call
from tickwheel.stores.redis.scripts import SCRIPTS
from tickwheel.stores.redis.sentinels import locating

__all__ = ["Servers", "Shards", "Single"]

NO_HINTS: Final[Mapping[int, str]] = {}
LOOK_S: Final = 1.0  # a third of the time for which a lease is taken by default

_encode = msgspec.msgpack.Encoder().encode


class Servers(Protocol):
    """Where the shards are."""

    def shard_of(self, part: int) -> int:
        """Return which shard a partition is in."""

    async def run(self, commands: Mapping[int, list[Command]]) -> dict[int, list[Any]]:
        """Run commands where each shard is, and return their answers."""

    async def settle(self, partitions: int) -> None:
        """Take note of how many partitions there are."""

    async def place(self) -> Place:
        """Return a server at which hints are told and heard."""

    async def close(self) -> None:
        """Let go of all servers."""


class Single:
    """One server, at its address or where the sentinels say.

    A master that they replaced, though it lives, is one for some ten seconds more to those who are connected to it; and
    all that they write to it is lost. So sentinels are asked now and then, and not only for a new connection.
    """

    def __init__(self, address: Address) -> None:
        self._address = address
        self._greeter = Greeter(address)
        self._ask_where = locating(address)
        self._connections = Connections(address, self._locate, self._greeter.greet)
        self._place: Place | None = None
        self._located_s = -math.inf

    async def _locate(self) -> Place:
        self._located_s = asyncio.get_running_loop().time()
        place, before = await self._ask_where(), self._place
        self._place = place
        if before not in (None, place):
            await self._connections.forget()
        return place

    async def _look_again(self) -> None:
        """See whether the server is where it was, if that can change and nobody looked for a while."""
        if self._address.service and asyncio.get_running_loop().time() - self._located_s > LOOK_S:
            with suppress(*AWAY):  # the server may be there, whoever else is away
                async with asyncio.timeout(LOOK_S):
                    await self._locate()

    def shard_of(self, part: int) -> int:
        """All are in one."""
        return min(part, 0)

    async def run(self, commands: Mapping[int, list[Command]]) -> dict[int, list[Any]]:
        """Run commands."""
        await self._look_again()
        answers = iter(await self._connections.run([each for asked in commands.values() for each in asked]))
        return {shard: [next(answers) for _ in asked] for shard, asked in commands.items()}

    async def place(self) -> Place:
        """Return where it is."""
        return await self._locate()

    async def settle(self, partitions: int) -> None:
        """Look at the server once more, now that it is known what is there."""
        self._greeter.shards = [list(range(partitions))]
        await self._connections.forget()

    async def close(self) -> None:
        """Let go of the server."""
        await self._connections.close()


class Shards:
    """All shards of a store; a clock is for tests."""

    def __init__(self, address: Address, servers: Servers, now_ms: Callable[[], int] | None) -> None:
        self.address = address
        self.partitions = 0
        self.servers = servers
        # Called with the partitions where something was held in vain, or a notification was not sent.
        self.dropped: Callable[[set[int]], None] = lambda _: None
        self._now_ms = now_ms
        self._closed = False

    async def settle(self, partitions: int) -> None:
        """Take note of how many partitions there are."""
        self.partitions = partitions
        with told(self.address):
            await self.servers.settle(partitions)

    def check(self) -> None:
        """Refuse to go on after the end."""
        if self._closed:
            raise StoreClosed

    async def close(self) -> None:
        """Let go of all servers."""
        self._closed = True
        await self.servers.close()

    def gathered(self, parts: Collection[int]) -> dict[int, list[int]]:
        """Return partitions by shard."""
        shards: dict[int, list[int]] = {}
        for part in parts:
            shards.setdefault(self.servers.shard_of(part), []).append(part)
        return shards

    def all(self) -> dict[int, list[int]]:
        """Return all partitions by shard."""
        return self.gathered(range(self.partitions))

    async def ask_one(self, script: str, shard: int, message: Any, *, lasting: bool = False) -> Any:
        """Run a script in one shard."""
        return (await self.ask(script, {shard: message}, lasting=lasting))[shard]

    async def ask(
        self, script: str, messages: Mapping[int, Any], *, lasting: bool = False, hints: Mapping[int, str] = NO_HINTS
    ) -> dict[int, Any]:
        """Run a script in some shards; what is `lasting` is with the replicas when this returns.

        Hints are sent by the server right after the script, whatever that did, also if this process has ended.
        """
        self.check()
        now = SERVERS_CLOCK if self._now_ms is None else self._now_ms()
        commands: dict[int, list[Command]] = {
            shard: [
                call(script, self.address, shard, now, _encode(message)),
                *([["PUBLISH", self.address.channel, hints[shard]]] if shard in hints else []),
            ]
            for shard, message in messages.items()
        }
        if not commands:
            return {}
        with told(self.address):
            answers = await self._run(script, commands, lasting=lasting and self.address.replicas > 0)
        if any(isinstance(answers[shard][1], Exception) for shard in hints):
            self.dropped(set(range(self.partitions)))  # by the line, which says what is wrong
        return {shard: answer for shard, (answer, *_) in answers.items()}

    async def _run(self, script: str, commands: dict[int, list[Command]], *, lasting: bool) -> dict[int, list[Any]]:
        if lasting:
            wait: Command = ["WAIT", self.address.replicas, self.address.wait_ms]
            commands = {shard: [*asked, wait] for shard, asked in commands.items()}
        answers = await self.servers.run(commands)
        unknown = [shard for shard, (answer, *_) in answers.items() if isinstance(answer, NoScriptError)]
        if unknown:  # somebody made the server forget its scripts: it has done nothing
            load: Command = ["SCRIPT", "LOAD", SCRIPTS[script]]
            again = await self.servers.run({shard: [load, *commands[shard]] for shard in unknown})
            answers |= {shard: answer[1:] for shard, answer in again.items()}
        for answer, *others in answers.values():
            if isinstance(answer, Exception):
                raise answer
            self._check_reached(others[-1:] if lasting else [])
        return answers

    def _check_reached(self, reached: list[Any]) -> None:
        """See that replicas have what was written."""
        for replicas in reached:
            if isinstance(replicas, Exception):
                raise replicas
            if replicas < self.address.replicas:
                raise StoreUnavailable(
                    f"{self.address.shown}: it is written, but only {replicas} of {self.address.replicas} replicas have"
                    f" it after {self.address.wait_ms} ms; see whether they run, or lower ?replicas="
                )
