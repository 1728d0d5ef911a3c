"""A Redis Cluster: each partition is on the server that has its slot, until it is moved or another takes over.

    {tickwheel:17}  ->  slot 5,461 of 16,384  ->  10.0.0.2:6379

Any server tells which slots are where. That is asked at first, when one says that a slot has moved, and after one could
not be reached. Commands that were refused because of that were not done, and are sent to the right one.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from redis.crc import key_slot
from redis.exceptions import AskError, ClusterDownError, TryAgainError

from tickwheel.stores.redis.address import Address
from tickwheel.stores.redis.connections import Command, Connections, Place, ask, checked, connect
from tickwheel.stores.redis.failures import AWAY
from tickwheel.stores.redis.greeting import Greeter
from tickwheel.stores.redis.keys import META, lead_key

__all__ = ["Cluster"]

TRIES: Final = 20  # to find a slot while it is being moved
PAUSE_S: Final = 0.05
ELSEWHERE: Final = (AskError, TryAgainError)  # refused without being done; what has moved is of the first kind


class Server:
    """One master, and what is on it."""

    def __init__(self, address: Address, place: Place) -> None:
        async def locate() -> Place:
            return place

        self.greeter = Greeter(address)
        self.connections = Connections(address, locate, self.greeter.greet)

    async def has(self, shards: list[int]) -> None:
        """Take note of what is on it; what came to it is looked at by new connections."""
        parts = [[shard] for shard in shards if shard != META]
        if (self.greeter.shards, self.greeter.has_meta) != (parts, META in shards):
            self.greeter.shards, self.greeter.has_meta = parts, META in shards
            await self.connections.forget()


class Cluster:
    """The masters of a cluster, as far as they are known."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._servers: dict[Place, Server] = {}
        self._places: dict[int, Place] = {}  # of each shard
        self._partitions = 0
        self._looking = asyncio.Lock()

    def shard_of(self, part: int) -> int:
        """Each is one."""
        return part

    async def run(self, commands: Mapping[int, list[Command]]) -> dict[int, list[Any]]:
        """Run commands where each shard is."""
        answers: dict[int, list[Any]] = {}
        left = dict(commands)
        for attempt in range(TRIES):
            if attempt or any(shard not in self._places for shard in left):
                await self._look()
            answers |= await self._run(left)
            left = {shard: left[shard] for shard in left if isinstance(answers[shard][0], ELSEWHERE)}
            if not left:
                break
            await asyncio.sleep(PAUSE_S * attempt)
        return answers

    async def _run(self, commands: Mapping[int, list[Command]]) -> dict[int, list[Any]]:
        by_place: dict[Place, list[int]] = {}
        for shard in commands:
            by_place.setdefault(self._places[shard], []).append(shard)
        told = await asyncio.gather(
            *(
                self._servers[place].connections.run([each for shard in shards for each in commands[shard]])
                for place, shards in by_place.items()
            ),
            return_exceptions=True,
        )
        answers: dict[int, list[Any]] = {}
        for shards, answer in zip(by_place.values(), told, strict=True):
            if isinstance(answer, BaseException):
                self._places = {}  # who could not be reached may not be there any more
                raise answer
            each = iter(answer)
            answers |= {shard: [next(each) for _ in commands[shard]] for shard in shards}
        return answers

    async def settle(self, partitions: int) -> None:
        """Find out where all partitions are."""
        self._partitions = partitions
        await self._look()

    async def place(self) -> Place:
        """Return a server that answers."""
        return await self._look()

    async def close(self) -> None:
        """Let go of all servers."""
        for server in self._servers.values():
            await server.connections.close()

    async def _look(self) -> Place:
        """Ask one server after the other which slots are where; return who answered."""
        async with self._looking:
            known = dict.fromkeys([*self._servers, *self._address.hosts])
            failure: BaseException = ClusterDownError("none of its servers is known")
            for place in known:
                try:
                    await self._note(place, await self._slots(place))
                except AWAY as error:
                    failure = error
                else:
                    return place
            raise failure

    async def _slots(self, place: Place) -> list[Any]:
        connection = await connect(self._address, place)
        try:
            [slots] = checked(await ask(connection, [["CLUSTER", "SLOTS"]]))
        finally:
            await connection.disconnect(nowait=True)
        return list(slots)

    async def _note(self, asked: Place, slots: list[Any]) -> None:
        """Take note of where everything is."""
        name = self._address.name
        wanted = {shard: key_slot(lead_key(name, shard).encode()) for shard in (META, *range(self._partitions))}
        places: dict[int, Place] = {}
        for first, last, (host, port, *_), *_ in slots:
            place = ((host or b"").decode() or asked[0], int(port))
            places |= {shard: place for shard, slot in wanted.items() if first <= slot <= last}
        if len(places) < len(wanted):
            raise ClusterDownError("not all of its slots are served")
        for place in set(places.values()) - self._servers.keys():
            self._servers[place] = Server(self._address, place)
        for place in self._servers.keys() - set(places.values()):
            await self._servers.pop(place).connections.close()
        for place, server in self._servers.items():
            await server.has([shard for shard, there in places.items() if there == place])
        self._places = places
