"""What time it is, by the members of the cluster: etcd itself tells nobody, but each of its HTTP answers is dated.

    GET /version HTTP/1.1           HTTP/1.1 200 OK
                                    Date: Mon, 16 Nov 2026 08:03:27 GMT

When a store is opened, each member is asked once. If this machine's clock may be right by what they say, it counts, and
in the background they are asked until it is known to some milliseconds, and then now and then. If it is wrong, they are
asked until a second begins there, which takes one at the most. Of members that do not agree, the one in the middle
counts.

Where no member answers by HTTP, as behind a proxy that only lets gRPC through, this machine's clock is all there is.
"""

import asyncio
import logging
import ssl
from collections.abc import Collection
from email import message_from_bytes
from email.utils import parsedate_to_datetime
from functools import cached_property
from typing import Final
from urllib.parse import urlsplit

from tickwheel.clock import Clock, SystemClock
from tickwheel.stores.etcd.address import Address
from tickwheel.stores.etcd.ahead import Ahead

__all__ = ["MembersClock"]

log = logging.getLogger("tickwheel.stores.etcd")

ANSWER_S: Final = 1.0  # a member answers by itself, in less than a millisecond
HURRY_S: Final = 0.005  # between two questions, until a second begins there
HURRY_NS_MAX: Final = 1_100_000_000  # in which one begins
PERIOD_NS: Final = 5 * 10**9  # between two questions, when it is well known
LEAD_NS: Final = 50_000_000  # to connect before the moment to ask
STEP_NS: Final = 10**9  # what this machine's clock changes by when it was set, or the machine slept
HEAD_BYTES_MAX: Final = 16_384


class MembersClock:
    """The clock of a cluster, as far as it is known here."""

    def __init__(self, address: Address, clock: Clock | None = None) -> None:
        self._address = address
        self._clock = clock or SystemClock()
        self._known: dict[str, Ahead] = {}  # of each member that has answered
        self._ahead_ns = self._own()  # what counts
        self._own_ns = self._ahead_ns  # what this machine's clock said when all were asked last
        self._setting = asyncio.Lock()
        self._following: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Ask for the time, and begin to follow it."""
        await self._set()
        if not self._known:
            log.warning(
                "%s: no member tells the time by HTTP (GET /version); tasks are due by this machine's clock: "
                "keep it right, by NTP",
                self._address.shown,
            )
        self._following = [asyncio.create_task(self._follow(each)) for each in self._address.endpoints]

    async def close(self) -> None:
        """Follow it no more."""
        for task in self._following:
            task.cancel()
        await asyncio.gather(*self._following, return_exceptions=True)

    async def settle(self) -> None:
        """Ask everybody again if this machine's clock was set, or stood still while it slept."""
        async with self._setting:
            if self._known and abs(self._own() - self._own_ns) > STEP_NS:
                await self._set()

    def now_ms(self) -> int:
        """Tell the time."""
        now_ns, own_ns = self._clock.monotonic_ns(), self._own()
        bounds = self._bounds(self._known)
        self._ahead_ns = own_ns if bounds is None else bounds.choose(self._ahead_ns, own_ns)
        return (now_ns + self._ahead_ns) // 1_000_000

    def _own(self) -> int:
        return self._clock.time_ns() - self._clock.monotonic_ns()

    def _bounds(self, known: dict[str, Ahead]) -> Ahead | None:
        now_ns = self._clock.monotonic_ns()
        return Ahead.middle(each.at(now_ns) for each in known.values()) if known else None

    async def _set(self) -> None:
        """Forget what is known, if anybody answers; ask until our own clock may be right, or it is known what is."""
        begun_ns, known = self._clock.monotonic_ns(), dict[str, Ahead]()
        await self._ask_each(self._address.endpoints, known)
        while (bounds := self._bounds(known)) is not None:
            self._known, self._own_ns = known, self._own()
            if bounds.is_narrow or bounds.holds(self._own_ns):
                return
            if self._clock.monotonic_ns() - begun_ns > HURRY_NS_MAX:
                return
            await asyncio.sleep(HURRY_S)
            await self._ask_each(list(known), known)

    async def _follow(self, endpoint: str) -> None:
        """Ask a member now and then."""
        while True:
            now_ns = self._clock.monotonic_ns()
            ask_ns = now_ns + PERIOD_NS
            if endpoint in self._known:
                known = self._known[endpoint].at(now_ns)
                ask_ns = known.next_second_ns(ask_ns if known.is_narrow else now_ns + LEAD_NS)
            await asyncio.sleep((ask_ns - LEAD_NS - now_ns) / 1e9)
            await self._ask(endpoint, self._known, ask_ns)

    async def _ask_each(self, endpoints: Collection[str], known: dict[str, Ahead]) -> None:
        await asyncio.gather(*(self._ask(each, known) for each in endpoints))

    async def _ask(self, endpoint: str, known: dict[str, Ahead], ask_ns: int = 0) -> None:
        """Ask a member at a moment; one that does not answer is left as it was known."""
        try:
            async with asyncio.timeout(ANSWER_S):
                told = await self._told(endpoint, ask_ns)
        except (OSError, EOFError, ValueError, asyncio.LimitOverrunError) as error:
            log.debug("%s does not tell the time: %r", endpoint, error)
            return
        known[endpoint] = known[endpoint].narrowed(told) if endpoint in known else told

    async def _told(self, endpoint: str, ask_ns: int) -> Ahead:
        """Read the date of an answer."""
        parts = urlsplit(f"//{endpoint}")
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port, ssl=self._tls, limit=HEAD_BYTES_MAX)
        try:
            await asyncio.sleep((ask_ns - self._clock.monotonic_ns()) / 1e9)
            asked_ns = self._clock.monotonic_ns()
            writer.write(b"GET /version HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n" % endpoint.encode())
            _, head = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n", 1)
            answered_ns = self._clock.monotonic_ns()
        finally:
            writer.transport.abort()
        date = parsedate_to_datetime(message_from_bytes(head)["Date"] or "")
        return Ahead.told(int(date.timestamp()), asked_ns, answered_ns)

    @cached_property
    def _tls(self) -> ssl.SSLContext | None:
        """The same certificates that gRPC is given, and no stricter than it is."""
        if not self._address.tls:
            return None
        context = ssl.create_default_context(cafile=self._address.ca or None)
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if self._address.cert:
            context.load_cert_chain(self._address.cert, self._address.key)
        return context
