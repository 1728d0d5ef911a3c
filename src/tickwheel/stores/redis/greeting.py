"""What is done on every new connection, before anything else: the server is looked at, and told our scripts.

A server that was started again, or a replica that was promoted, may lack what was written last: leases that were
taken, outcomes that were written. Leases that were made on another server are ended, so that all owners let go of what
they believe, take their partitions under new epochs, and find what was left running. As nobody can reach a server but
by a new connection, nobody writes under a lease that it should not have.
"""

import logging
from collections.abc import Sequence
from typing import Final

import msgspec
from redis.asyncio.connection import Connection
from redis.exceptions import AskError, BusyLoadingError, ReadOnlyError, TryAgainError

from tickwheel.errors import StoreError
from tickwheel.stores.redis.address import Address
from tickwheel.stores.redis.connections import ask, checked
from tickwheel.stores.redis.keys import META, SERVERS_CLOCK, call
from tickwheel.stores.redis.scripts import SCRIPTS

__all__ = ["Greeter"]

log = logging.getLogger("tickwheel.stores.redis")

VERSION_LEAST: Final = (6, 2)  # has ZMSCORE
SERIALS_LOST_MAX: Final = 1_000_000  # adds that a failover can lose: more than are written between master and replica


class Greeter:
    """Looks at one server whenever it is connected to; `shards` are the partitions that are there, as they go."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self.shards: Sequence[Sequence[int]] = ()
        self.has_meta = True

    async def greet(self, connection: Connection) -> None:
        """Look at a server, or say why it cannot be used."""
        [told] = checked(await ask(connection, [["INFO"]]))
        info = dict(line.split(":", 1) for line in told.decode().splitlines() if ":" in line)
        if info.get("loading") == "1":  # until then it also says that it keeps no log
            raise BusyLoadingError(f"{connection.host}:{connection.port} is loading its data")
        check(self._address, info)
        if info["role"] != "master":
            raise ReadOnlyError(f"{connection.host}:{connection.port} is a replica")
        await ask(connection, [["SCRIPT", "LOAD", script] for script in SCRIPTS.values()])
        await self._arrive(connection, info)

    async def _arrive(self, connection: Connection, info: dict[str, str]) -> None:
        world = info["run_id"]
        messages = [(parts[0], [parts, world, 0]) for parts in self.shards]
        if self.has_meta:
            messages.append((META, [[], world, SERIALS_LOST_MAX]))
        commands = [
            call("arrive", self._address, lead, SERVERS_CLOCK, msgspec.msgpack.encode(message))
            for lead, message in messages
        ]
        ended, moved = 0, 0
        answers = await ask(connection, commands) if commands else []
        # What moved to another server is looked at there, and what is being moved was looked at before.
        for answer in checked([answer for answer in answers if not isinstance(answer, AskError | TryAgainError)]):
            ended, moved = ended + answer[0], max(moved, answer[1])
        if moved:
            log.warning(
                "%s: %s; %d leases are ended, and everything is loaded anew. %s",
                self._address.shown,
                f"{connection.host}:{connection.port} {how_it_came(self._address, info)}",
                ended,
                what_may_be_lost(self._address, info),
            )


def how_it_came(address: Address, info: dict[str, str]) -> str:
    """Say why a server is another one."""
    if was_promoted(info):
        return "is a replica that was promoted"
    return "was started again, or slots were moved to it" if address.clustered else "was started again"


def was_promoted(info: dict[str, str]) -> bool:
    """Tell whether it was a replica once: then it knows the history of its master."""
    return bool(info.get("master_replid2", "").strip("0"))


def what_may_be_lost(address: Address, info: dict[str, str]) -> str:
    """Say what a server may lack."""
    if not was_promoted(info):
        return "What it had not written to its disk (appendfsync) is lost"
    if address.replicas:
        return f"What was acknowledged was on {address.replicas} replicas; if this one was not among them, it is lost"
    return "What had not reached it is lost, though it was acknowledged: see ?replicas= in the URL"


def check(address: Address, info: dict[str, str]) -> None:
    """Refuse a server that would forget tasks, or cannot keep them."""
    version = tuple(int(part) for part in info["redis_version"].split(".")[:2])
    if version < VERSION_LEAST:
        raise StoreError(f"{address.shown}: Redis 6.2 or later is needed, and this is {info['redis_version']}")
    if address.clustered != (info.get("cluster_enabled") == "1"):
        right = "redis+cluster://" if info.get("cluster_enabled") == "1" else "redis://"
        raise StoreError(f"{address.shown}: the URL of this server begins with {right}")
    if not address.may_lose and (wrong := unsafe(info)):
        raise StoreError(f"{address.shown}: {wrong}, or say ?may_lose=yes if tasks may be lost")


def unsafe(info: dict[str, str]) -> str:
    """Return why a server would lose acknowledged tasks without a word, and what to do; nothing if it would not."""
    if info.get("aof_enabled") != "1":
        return "it keeps no log of what it is told and forgets tasks when it ends: CONFIG SET appendonly yes"
    policy = info.get("maxmemory_policy", "")
    if policy.startswith("allkeys"):
        return f"it deletes tasks when its memory is full ({policy}): CONFIG SET maxmemory-policy noeviction"
    return ""
