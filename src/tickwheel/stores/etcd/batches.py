"""Batches that are too large for one transaction, and are still applied whole or not at all.

Only one is under way at a time. Its name is in the key x, and as long as that is there nobody else changes tasks:

    open        what is to be written is found out, and written down in pages     x is bound to a lease
    decided     the pages are carried out, by whoever has the time                x stays until that is done

Who dies while it is open leaves nothing behind: x goes with the lease, and everybody else goes on. Who dies when it
is decided has others carry it out, for all that is needed for that is in the pages. They may be carried out more than
once, and in any order. Others may see a part of such a batch for a moment; they cannot change anything of it.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, TypeAlias, TypeVar

from aetcd import rpc

from tickwheel.errors import StoreError, StoreUnavailable
from tickwheel.stores.etcd.keys import Keys
from tickwheel.stores.etcd.members import Members, abreast
from tickwheel.stores.etcd.requests import (
    BYTES_MAX,
    GIVEN_MAX,
    Operation,
    ask_all,
    ask_key,
    delete,
    delete_all,
    holds,
    put,
    stands,
    transaction,
)

__all__ = ["EVERYWHERE", "Batches"]

T = TypeVar("T")
Work: TypeAlias = Callable[[], Awaitable[tuple[T, list[Operation], Operation]]]

LEASE_S: Final = 5  # how long others wait for one who is suspended or dead before it has decided
LOOK_S: Final = 0.02  # how often those who wait look again
HELP_S: Final = 1.0  # how long it may stay decided before others carry it out
TRIES: Final = 3
EVERYWHERE: Final = b"*"
WAIT_S_MAX: Final = 60.0


class TooLate(Exception):
    """Others were let in before it was decided: nothing has happened."""


class Batches:
    """Writes large batches, waits for those of others, and carries out what they left."""

    def __init__(self, keys: Keys, members: Members) -> None:
        self._keys = keys
        self._members = members

    async def write(self, work: Work[T]) -> T:
        """Find out what is to be written while nobody else writes, and write it; what comes last tells others."""
        for _ in range(TRIES):
            with suppress(TooLate):
                return await self._write(work, secrets.token_hex(8))
        raise StoreUnavailable(f"{self._members.address.shown}: a large batch took too long; nothing was written")

    async def _write(self, work: Work[T], name: str) -> T:
        async with self._open(name):
            answer, given, hint = await work()
            pages = self._pages(name, given)
            written = [put(self._keys.page(name, n), page.SerializeToString()) for n, page in enumerate(pages)]
            await abreast(lambda each: self._while_open(name, each), written)
            await self._while_open(name, put(self._keys.batch, self._decided(name)))
        await self._carry_out(name, pages, hint)
        return answer

    async def settled(self) -> None:
        """Wait until no batch is under way; carry out one that was left."""
        loop = asyncio.get_running_loop()
        began = since = loop.time()
        seen = b""
        while value := await self._under_way():
            if value != seen:
                seen, since = value, loop.time()
            state, _, name = value.partition(b" ")
            if state == b"decided" and loop.time() - since > HELP_S:
                await self._help(name.decode())
                continue
            if loop.time() - began > WAIT_S_MAX:
                raise StoreUnavailable(f"{self._members.address.shown}: large batches are under way all the time")
            await asyncio.sleep(LOOK_S)

    async def _under_way(self) -> bytes:
        [answer] = await self._members.read([ask_key(self._keys.batch)])
        return answer.kvs[0].value if answer.kvs else b""

    @staticmethod
    def _opened(name: str) -> bytes:
        return b"open " + name.encode()

    @staticmethod
    def _decided(name: str) -> bytes:
        return b"decided " + name.encode()

    @asynccontextmanager
    async def _open(self, name: str) -> AsyncIterator[None]:
        """Keep everybody else from writing; what was not decided in the end has not happened."""
        lease = (await self._members.ask_lease("LeaseGrant", rpc.LeaseGrantRequest(TTL=LEASE_S))).ID
        value = self._opened(name)
        keeping = asyncio.create_task(self._keep(lease))
        try:
            # Pages that are there now are of one who died before it had decided.
            begun = [put(self._keys.batch, value, lease), delete_all(self._keys.journal)]
            request = transaction([stands(self._keys.batch, 0)], begun)
            while not (await self._members.write(request)).succeeded:
                await self.settled()
            yield
        finally:
            keeping.cancel()
            with suppress(StoreError, asyncio.CancelledError):
                undone = [delete(self._keys.batch), delete_all(self._keys.pages(name))]
                await self._members.write_again(transaction([holds(self._keys.batch, value)], undone))
                await self._members.revoke(lease)

    async def _keep(self, lease: int) -> None:
        with suppress(StoreError):  # then it ends, and what depends on it says so
            while await self._members.keep_alive([lease]):  # noqa: ASYNC110 - nobody tells etcd's clock
                await asyncio.sleep(LEASE_S / 3)

    async def _while_open(self, name: str, operation: Operation) -> None:
        request = transaction([holds(self._keys.batch, self._opened(name))], [operation])
        if not (await self._members.write(request)).succeeded:
            raise TooLate

    def _pages(self, name: str, given: Sequence[Operation]) -> list[Any]:
        """Divide operations into transactions, each of which can be done as long as it is decided."""
        compared = [holds(self._keys.batch, self._decided(name))]
        pages: list[Any] = []
        page: list[Operation] = []
        size = 0
        for operation in given:
            size += operation.ByteSize()
            if page and (size > BYTES_MAX or len(page) == GIVEN_MAX):
                pages.append(transaction(compared, page))
                page, size = [], operation.ByteSize()
            page.append(operation)
        return [*pages, transaction(compared, page)]

    async def _carry_out(self, name: str, pages: Sequence[Any], hint: Operation) -> None:
        await abreast(self._members.write_again, pages)
        done = [delete(self._keys.batch), delete_all(self._keys.pages(name)), hint]
        await self._members.write_again(transaction([holds(self._keys.batch, self._decided(name))], done))

    async def _help(self, name: str) -> None:
        """Carry out what another one decided."""
        [listed] = await self._members.read([ask_all(self._keys.pages(name), only="keys")])
        pages = []
        for pair in listed.kvs:
            [answer] = await self._members.read([ask_key(pair.key)])
            pages += [rpc.TxnRequest.FromString(each.value) for each in answer.kvs]
        if len(pages) == len(listed.kvs):  # otherwise somebody has just done it
            await self._carry_out(name, pages, put(self._keys.news, EVERYWHERE))
