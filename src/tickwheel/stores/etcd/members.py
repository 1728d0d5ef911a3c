"""The members of the cluster: one is asked, and when it is away, the next one.

What only reads, or does the same when it is done twice, is asked of one member after the other. What changes something
is sent once: if the answer is lost, nobody knows whether it happened, and whoever asked is told so. A member that
cannot be connected to has got nothing, so that the next one can be asked in any case.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Sequence
from typing import Any, Final, TypeVar

import grpc
from aetcd import rpc
from grpc.aio import AioRpcError

from tickwheel.errors import StoreClosed, StoreUnavailable
from tickwheel.stores.etcd import requests
from tickwheel.stores.etcd.address import Address
from tickwheel.stores.etcd.failures import is_away, is_dropped, is_stranger, told

__all__ = ["Members", "abreast"]

A = TypeVar("A")
T = TypeVar("T")

CONNECT_S: Final = 3.0  # to one member
RECONNECT_S: Final = 1.5  # to any that was there before: the driver itself pauses for a second in between
LOOK_S: Final = 0.05
ANSWER_S: Final = 3.0  # a commit takes milliseconds, and an election a second or two; what died with a leader, 7 s
PAUSE_S: Final = 0.25  # while there is no leader: most elections take a second or two
TRIES_MIN: Final = 6  # with one member, or a proxy for all of them, as with three
ABREAST: Final = 4  # transactions at a time: more than that only wait in etcd, where their order is kept
READY: Final = grpc.ChannelConnectivity.READY
SETTLED: Final = (READY, grpc.ChannelConnectivity.TRANSIENT_FAILURE, grpc.ChannelConnectivity.SHUTDOWN)
DRIVERS: Final = "_AioCall."  # what the driver's own tasks are named
WITH_LEADER: Final = ("hasleader", "true")  # a watch ends where nothing new would ever be heard
OPTIONS: Final = [
    ("grpc.max_receive_message_length", -1),  # pages have their own bounds
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 500),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.keepalive_time_ms", 10_000),  # etcd takes it amiss below 5 s
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.use_local_subchannel_pool", 1),  # how another store's connection fares is nothing to us
]


async def abreast(work: Callable[[A], Awaitable[T]], items: Iterable[A]) -> list[T]:
    """Do some work for each of many, a few at a time; after an error no more is begun, and what was is waited for."""
    items = list(items)
    if len(items) == 1:
        return [await work(items[0])]
    answers: dict[int, T] = {}
    failed: list[BaseException] = []
    waiting = iter(enumerate(items))

    async def go_on() -> None:
        for number, item in waiting:
            if failed:
                return
            try:
                answers[number] = await work(item)
            except BaseException as error:
                failed.append(error)
                raise

    await asyncio.gather(*(go_on() for _ in range(min(ABREAST, len(items)))), return_exceptions=True)
    if failed:
        raise failed[0]
    return [answers[number] for number in range(len(items))]


class Members:
    """The connections to all members, each made when it is first needed."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._channels: dict[int, Any] = {}
        self._stubs: dict[tuple[int, str], Any] = {}
        self._tokens: dict[int, str] = {}
        self._talks: set[asyncio.Task[Any]] = set()  # that are not over
        self._now = 0  # which one is asked
        self._met = False  # whether one was there before
        self._closed = False

    async def close(self) -> None:
        """Let go of all of them."""
        self._closed = True
        channels, self._channels, self._stubs = self._channels, {}, {}
        if self._talks:
            await asyncio.wait(self._talks, timeout=ANSWER_S)
        for channel in channels.values():
            await channel.close()

    def check(self) -> None:
        """Refuse to go on after the end."""
        if self._closed:
            raise StoreClosed

    # -- questions and changes

    async def read(self, asked: Sequence[Any]) -> list[Any]:
        """Answer questions, each 128 of them as of one moment."""
        return requests.answers(await abreast(self.write_again, requests.questions(asked)))

    async def write(self, transaction: Any) -> Any:
        """Do a transaction, once."""
        return await self._ask("KV", "Txn", transaction, again=False)

    async def write_again(self, transaction: Any) -> Any:
        """Do a transaction that may be done twice."""
        return await self._ask("KV", "Txn", transaction)

    async def ask_lease(self, method: str, request: Any) -> Any:
        """Ask for a lease, or about one, or end it."""
        return await self._ask("Lease", method, request)

    async def revoke(self, lease: int) -> None:
        """End a lease; one that is over need not be ended."""
        try:
            await self.ask_lease("LeaseRevoke", rpc.LeaseRevokeRequest(ID=lease))
        except StoreUnavailable as error:
            cause = error.__cause__
            if not (isinstance(cause, AioRpcError) and cause.code() is grpc.StatusCode.NOT_FOUND):
                raise

    async def keep_alive(self, leases: Sequence[int]) -> dict[int, int]:
        """Renew leases; return for how many seconds each lasts now, without those that are over."""

        async def talk(member: int, metadata: Any) -> dict[int, int]:
            asked = iter([rpc.LeaseKeepAliveRequest(ID=each) for each in leases])
            call = self._stub(member, "Lease").LeaseKeepAlive(asked, timeout=ANSWER_S, metadata=metadata)
            kept = {answer.ID: answer.TTL async for answer in call if answer.TTL > 0}
            await call.code()  # the last that is heard of it
            return kept

        return await self._call(talk, again=True)

    async def watch(self, ranges: Sequence[tuple[bytes, bytes]]) -> AsyncIterator[list[Any]]:
        """Tell of changes in ranges of keys, first with nothing when it begins; raises when the member goes away."""
        self.check()
        with told(self.address):
            member, metadata = await self._connected()
            wanted = [
                rpc.WatchRequest(create_request=rpc.WatchCreateRequest(key=key, range_end=end)) for key, end in ranges
            ]
            # Not as an iterator: etcd would end the watches together with what they were asked with.
            before, chores = asyncio.all_tasks(), []
            call = self._stub(member, "Watch").Watch(metadata=(*metadata, WITH_LEADER))
            try:
                for request in wanted:
                    await call.write(request)
                chores = [task for task in asyncio.all_tasks() - before if DRIVERS in repr(task.get_coro())]
                waited_for = len(wanted)
                while (answer := await call.read()) is not grpc.aio.EOF:
                    if answer.canceled:
                        raise StoreUnavailable(f"{self.address.shown}: it ended a watch ({answer.cancel_reason})")
                    waited_for -= answer.created
                    if answer.events or (answer.created and not waited_for):
                        yield list(answer.events)
            except AioRpcError:
                self._leave(member)
                raise
            finally:
                call.cancel()
                if chores:  # the driver hears the end of a call some time after that, and should not outlast the loop
                    await asyncio.wait(chores, timeout=1)

    # -- one member after the other

    async def _ask(self, service: str, method: str, request: Any, *, again: bool = True) -> Any:
        async def talk(member: int, metadata: Any) -> Any:
            return await getattr(self._stub(member, service), method)(request, timeout=ANSWER_S, metadata=metadata)

        return await self._call(talk, again=again)

    async def _call(self, talk: Callable[[int, Any], Coroutine[Any, Any, T]], *, again: bool) -> T:
        self.check()
        with told(self.address):
            left = max(2 * len(self.address.endpoints), TRIES_MIN)
            while True:
                member, metadata = await self._connected()
                left -= 1
                try:
                    return await self._heard(talk(member, metadata))
                except AioRpcError as error:
                    self.check()
                    if is_stranger(error) and left > 0:
                        self._tokens.pop(member, None)
                        continue
                    if not is_away(error):
                        raise
                    self._leave(member)
                    if left <= 0 or not (again or is_dropped(error)):
                        raise
                    await asyncio.sleep(PAUSE_S)

    async def _heard(self, talk: Coroutine[Any, Any, T]) -> T:
        """Hear an answer out, also when nobody waits for it any more: broken off, it would outlast the loop."""
        task = asyncio.create_task(talk)
        self._talks.add(task)
        task.add_done_callback(self._end)
        return await asyncio.shield(task)

    def _end(self, task: asyncio.Task[Any]) -> None:
        self._talks.discard(task)
        if not task.cancelled():
            task.exception()  # who waits for it hears of it; if nobody does, nobody has to

    def _leave(self, member: int) -> None:
        """Ask another one from now on, unless somebody has decided that already."""
        if member == self._now:
            self._now = (member + 1) % len(self.address.endpoints)

    async def _connected(self) -> tuple[int, tuple[tuple[str, str], ...]]:
        """Return a member that is there, and how to greet it."""
        loop = asyncio.get_running_loop()
        end = loop.time() + RECONNECT_S * self._met
        while True:
            for _ in self.address.endpoints:
                member = self._now
                if await self._is_ready(self._channel(member)):
                    self._met = True
                    try:
                        return member, await self._greeting(member)
                    except AioRpcError as error:
                        if not is_away(error):
                            raise
                self.check()
                self._leave(member)
            if loop.time() >= end:
                raise StoreUnavailable(
                    f"{self.address.shown}: it cannot be reached; see whether its members run, and their addresses"
                )
            await asyncio.sleep(LOOK_S)

    def _channel(self, member: int) -> Any:
        channel = self._channels.get(member)
        if channel is None:
            endpoint = self.address.endpoints[member]
            if self.address.tls:
                secrets = [self.address.read(name) for name in ("ca", "key", "cert")]
                channel = grpc.aio.secure_channel(endpoint, grpc.ssl_channel_credentials(*secrets), OPTIONS)
            else:
                channel = grpc.aio.insecure_channel(endpoint, OPTIONS)
            self._channels[member] = channel
        return channel

    def _stub(self, member: int, service: str) -> Any:
        stub = self._stubs.get((member, service))
        if stub is None:
            stub = self._stubs[member, service] = getattr(rpc, f"{service}Stub")(self._channel(member))
        return stub

    @staticmethod
    async def _is_ready(channel: Any) -> bool:
        """Wait for a connection, unless it has failed: then it is tried again in the background, and others asked."""
        state = channel.get_state(try_to_connect=True)
        try:
            async with asyncio.timeout(CONNECT_S):
                while state not in SETTLED:
                    await channel.wait_for_state_change(state)
                    state = channel.get_state(try_to_connect=True)
        except TimeoutError:
            return False
        return state is READY

    async def _greeting(self, member: int) -> tuple[tuple[str, str], ...]:
        """Say who we are, where one has to be somebody."""
        if not self.address.user:
            return ()
        if member not in self._tokens:
            request = rpc.AuthenticateRequest(name=self.address.user, password=self.address.password)
            answer = await self._stub(member, "Auth").Authenticate(request, timeout=ANSWER_S)
            self._tokens[member] = answer.token
        return (("token", self._tokens[member]),)
