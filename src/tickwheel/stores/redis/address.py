"""Where the tasks are: a Redis URL, with a few settings of ours in it.

    redis://ann:secret@host:6379/0                  one server; rediss:// by TLS
    redis+sentinel://ann:secret@a,b:26380/shop/0    the master that sentinels call `shop`
    redis+cluster://ann:secret@a:7000,b:7001        a cluster, known by any of its servers

>>> Address.of("redis+sentinel://ann:secret@a,b:26380/shop/2?replicas=1").hosts
(('a', 26379), ('b', 26380))
>>> Address.of("redis://ann:secret@db.example/2?name=jobs").shown
'redis://db.example:6379/2?name=jobs'
"""

import re
from typing import Final
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

import msgspec

from tickwheel.errors import StoreError

__all__ = ["SCHEMES", "Address"]

NAME: Final = re.compile(r"[a-z0-9_-]{1,32}")  # has no braces: those of a hash tag are ours
PORTS: Final = {"redis": 6379, "rediss": 6379, "redis+sentinel": 26379, "redis+cluster": 6379}
SCHEMES: Final = tuple(PORTS)
OPTIONS: Final = ("name", "replicas", "wait_ms", "may_lose", "tls", "ca_file", "sentinel_password")
PLAIN: Final = {"yes": True, "no": False}
WAIT_MS: Final = 1_000  # for replicas to have a write: they take about a millisecond
REPLICAS_MAX: Final = 5


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """What to connect to, and how."""

    scheme: str
    hosts: tuple[tuple[str, int], ...]
    service: str = ""  # what sentinels call it
    db: int = 0
    username: str | None = None
    password: str | None = None
    name: str = "tickwheel"
    replicas: int = 0  # that have a write before it is acknowledged
    wait_ms: int = WAIT_MS
    may_lose: bool = False  # what a server without a log forgets
    tls: bool = False
    ca_file: str | None = None
    sentinel_password: str | None = None

    @classmethod
    def of(cls, url: str) -> "Address":
        """Read a URL, or say what is wrong with it."""
        parts = urlsplit(url)
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
        for option in options:
            if option not in OPTIONS:
                raise StoreError(f"?{option}=: there is no such option of a Redis URL; there are {', '.join(OPTIONS)}")
        login, _, places = parts.netloc.rpartition("@")
        username, _, password = login.partition(":")
        service, db = _path_of(parts)
        name = options.get("name", "tickwheel")
        if not NAME.fullmatch(name):
            raise StoreError(f"name={name}: a store is named with up to 32 small letters, digits, - and _")
        return cls(
            scheme=parts.scheme,
            hosts=tuple(_host_of(place, PORTS[parts.scheme]) for place in places.split(",")),
            service=service,
            db=db,
            username=unquote(username) or None,
            password=unquote(password) or None,
            name=name,
            replicas=_number(options, "replicas", 0, REPLICAS_MAX),
            wait_ms=_number(options, "wait_ms", WAIT_MS, 60_000),
            may_lose=_plain(options, "may_lose"),
            tls=parts.scheme == "rediss" or _plain(options, "tls"),
            ca_file=options.get("ca_file"),
            sentinel_password=options.get("sentinel_password"),
        )

    @property
    def clustered(self) -> bool:
        """Whether the partitions may be on different servers."""
        return self.scheme == "redis+cluster"

    @property
    def shown(self) -> str:
        """What to call it in messages: nobody's name, and no password."""
        places = ",".join(f"{host}:{port}" for host, port in self.hosts)
        path = f"/{self.service}" if self.service else ""
        return f"{self.scheme}://{places}{path}{'' if self.clustered else f'/{self.db}'}?name={self.name}"

    @property
    def channel(self) -> str:
        """Where hints are told and heard; channels are common to all databases of a server."""
        return f"tickwheel:{self.db}:{self.name}"


def _host_of(place: str, usual: int) -> tuple[str, int]:
    host, port = place, ""
    if not place.endswith("]") and ":" in place:  # not within the brackets of an IPv6 address
        host, _, port = place.rpartition(":")
    if not host or (port and not (port.isdecimal() and 0 < int(port) < 2**16)):
        raise StoreError(f"{place!r} is no server; write its name, a colon and its port")
    return host.strip("[]"), int(port) if port else usual


def _path_of(parts: SplitResult) -> tuple[str, int]:
    """Return the service that sentinels know, and the number of the database."""
    path = [unquote(part) for part in parts.path.split("/") if part]
    service = ""
    if parts.scheme == "redis+sentinel":
        if not path:
            raise StoreError("the URL of a master that sentinels watch ends with its name: redis+sentinel://host/name")
        service = path.pop(0)
    db = path.pop(0) if path else "0"
    if path or not db.isdecimal() or (parts.scheme == "redis+cluster" and db != "0"):
        raise StoreError(f"{parts.path!r} does not end with the number of a database; a cluster has only one")
    return service, int(db)


def _number(options: dict[str, str], name: str, usual: int, most: int) -> int:
    text = options.get(name, str(usual))
    if not (text.isascii() and text.isdecimal() and int(text) <= most):
        raise StoreError(f"{name}={text}: it is a number up to {most:,}")
    return int(text)


def _plain(options: dict[str, str], name: str) -> bool:
    text = options.get(name, "no")
    if text not in PLAIN:
        raise StoreError(f"{name}={text}: say yes or no")
    return PLAIN[text]
