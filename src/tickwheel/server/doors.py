"""Who comes in: the checks before anything is done, in the order they are made.

is this server meant?       the Host header, if there are no tokens: a page may have its name point here
does another page write?    Origin and Sec-Fetch-Site: a browser says where a request comes from
not too often?              so many requests a second, for each client
who is it?                  a bearer token, or the cookie of a session
may they?                   the role that the address asks for (`opt={"role": ...}`)
"""

import secrets
from collections import OrderedDict
from functools import lru_cache
from typing import Any, Final
from urllib.parse import urlsplit

from litestar import Request
from litestar.connection import ASGIConnection
from litestar.datastructures import Headers

from tickwheel.clock import Clock
from tickwheel.server.config import LOOPBACK, Config
from tickwheel.server.problems import Problem
from tickwheel.server.tokens import Holder, Tokens

__all__ = ["COOKIE", "Doors", "Sessions"]

Connection = ASGIConnection[Any, Any, Any, Any]

COOKIE: Final = "tickwheel_session"
SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
SESSIONS_MAX: Final = 10_000
SESSION_S: Final = 12 * 3600  # a working day
CLIENTS_MAX: Final = 10_000  # whose rates are remembered; those seen last
EVERYBODY: Final = Holder("anyone on this machine", "admin")


class Sessions:
    """Browsers that have shown a token, in this process; the oldest go when there are too many."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._open: OrderedDict[str, tuple[Holder, int]] = OrderedDict()

    def begin(self, holder: Holder) -> str:
        """Begin a session; return what goes into the cookie."""
        session = secrets.token_urlsafe(32)
        self._open[session] = holder, self._clock.monotonic_ns() + SESSION_S * 10**9
        if len(self._open) > SESSIONS_MAX:
            self._open.popitem(last=False)
        return session

    def holder_of(self, session: str) -> Holder | None:
        """Return whose session it is."""
        holder, ends_ns = self._open.get(session, (None, 0))
        return holder if self._clock.monotonic_ns() < ends_ns else None

    def end(self, session: str) -> None:
        """Forget a session."""
        self._open.pop(session, None)


class Rates:
    """A bucket of tokens for each client: so many a second flow in, twice as many fit."""

    def __init__(self, rate_per_s: int, clock: Clock) -> None:
        self._rate_per_s = rate_per_s
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def take(self, client: str) -> float:
        """Take a token; return how many seconds to wait if there is none, 0 if there was one."""
        if not self._rate_per_s:
            return 0.0
        now_ns = self._clock.monotonic_ns()
        most = 2.0 * self._rate_per_s
        level, seen_ns = self._buckets.pop(client, (most, now_ns))
        level = min(level + (now_ns - seen_ns) * self._rate_per_s / 1e9, most)
        wait_s = 0.0 if level >= 1.0 else (1.0 - level) / self._rate_per_s
        self._buckets[client] = (level if wait_s else level - 1.0, now_ns)
        if len(self._buckets) > CLIENTS_MAX:
            self._buckets.popitem(last=False)
        return wait_s


class Doors:
    """Lets requests in, or says why not."""

    def __init__(self, config: Config, tokens: Tokens | None, clock: Clock) -> None:
        self.tokens = tokens
        self.sessions = Sessions(clock)
        self._config = config
        self._rates = Rates(config.rate_per_s, clock)

    async def guard(self, connection: Request[Any, Any, Any]) -> None:
        """Check a request before its handler has it, which finds in `request.user` who asks."""
        headers = connection.headers
        if self.tokens is None:
            self._check_host(headers)
        if connection.method not in SAFE:
            self._check_origin(headers)
        holder = connection.scope["user"] = self._holder_of(connection, headers)
        self._check_rate(connection, holder)
        needed = connection.route_handler.opt.get("role")
        if needed is None:
            return
        if holder is None:
            raise Problem(
                401,
                "unauthenticated",
                "Nobody is known by this token",
                "send a token: Authorization: Bearer tw_...",
                headers={"www-authenticate": "Bearer"},
            )
        if not holder.may(needed):
            detail = f"this takes the role {needed!r}, and {holder.name} has {holder.role!r}"
            raise Problem(403, "forbidden", "The token is not good for this", detail)

    def _holder_of(self, connection: Connection, headers: Headers) -> Holder | None:
        """Find out who it is; without tokens it is anyone."""
        if self.tokens is None:
            return EVERYBODY
        kind, _, token = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer":
            return self.tokens.holder_of(token.strip())
        session = connection.cookies.get(COOKIE)
        return self.sessions.holder_of(session) if session else None

    def _check_host(self, headers: Headers) -> None:
        host = _name_of(headers.get("host", ""))
        if host not in LOOPBACK and host not in self._config.hosts and "*" not in self._config.hosts:
            detail = f"without tokens it answers to localhost, not to {host!r}; name it in `hosts` if that is right"
            raise Problem(403, "foreign-host", "This server does not go by that name", detail)

    def _check_origin(self, headers: Headers) -> None:
        origin = headers.get("origin")
        if origin in self._config.origins:
            return
        came_from = headers.get("sec-fetch-site", "none")
        own = origin is None or urlsplit(origin).netloc == headers.get("host")
        if came_from not in ("same-origin", "none") or not own:
            detail = "pages of other origins may not write here; name them in `origins` if they may"
            raise Problem(403, "cross-origin", "Another page may not write", detail)

    def _check_rate(self, connection: Connection, holder: Holder | None) -> None:
        address = connection.client.host if connection.client else ""
        wait_s = self._rates.take(address if holder in (None, EVERYBODY) else f"token {holder.name}")
        if wait_s:
            raise Problem(
                429,
                "too-many-requests",
                "Too many requests",
                f"{self._config.rate_per_s:,} a second are allowed",
                headers={"retry-after": str(max(1, round(wait_s)))},
            )


@lru_cache(maxsize=1024)  # the same few names again and again
def _name_of(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""
