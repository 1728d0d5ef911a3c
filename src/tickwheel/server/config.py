"""Everything a server can be told, with bounds; where it is told is in `sources.py`.

>>> Config(port=70000)
Traceback (most recent call last):
tickwheel.errors.InvalidConfig: port is from 0 to 65,535, not 70000
"""

from typing import Final, Literal
from urllib.parse import urlsplit

import msgspec

from tickwheel.errors import InvalidConfig

__all__ = ["LOOPBACK", "Config"]

LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})

BOUNDS: Final[dict[str, tuple[float, float]]] = {
    "port": (0, 65_535),
    "body_bytes_max": (1_024, 64 * 2**20),
    "depth_max": (4, 500),
    "batch_max": (1, 10_000),
    "rate_per_s": (0, 1_000_000),
    "streams_max": (1, 10_000),
    "events_kept": (16, 1_000_000),
    "idempotency_keys_max": (1, 1_000_000),
    "connections_max": (1, 100_000),
    "grace_s": (0, 3_600),
}


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a server is to be."""

    store: str = "sqlite:///tasks.db"
    app: str | None = None  # module:name of a scheduler with handlers
    demo: bool = False  # example handlers, and tasks for them
    host: str = "127.0.0.1"
    port: int = 8765
    token_file: str | None = None  # without tokens it is for this machine alone
    tls_cert: str | None = None
    tls_key: str | None = None
    hosts: list[str] = []  # names it goes by besides those of this machine; "*" for any
    origins: list[str] = []  # pages of other origins that may write
    log: Literal["console", "json"] = "console"
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "WARNING"
    mask: list[str] = []  # words, besides the usual ones, that make the name of an argument a secret's
    body_bytes_max: int = 2**20
    depth_max: int = 32  # of nesting
    batch_max: int = 1_000  # tasks in a batch
    deliver: bool = False  # send webhooks and hand out queues, though there is no app with handlers
    webhook_secret_file: str | None = None  # one secret a line, or two while they are rotated
    webhook_networks: list[str] = []  # where webhooks may go besides the internet: 10.1.0.0/16
    rate_per_s: int = 1_000  # requests of one client, and twice as many in a burst; 0 for no limit
    streams_max: int = 100  # that listen to events
    events_kept: int = 4_096  # for streams that come back
    idempotency_keys_max: int = 10_000
    connections_max: int = 1_000
    grace_s: float = 20.0  # for requests and runs to end when it is stopped

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        for name, (least, most) in BOUNDS.items():
            if not least <= getattr(self, name) <= most:
                raise InvalidConfig(f"{name} is from {least:,} to {most:,}, not {getattr(self, name)!r}")
        if (self.tls_cert is None) != (self.tls_key is None):
            raise InvalidConfig("TLS needs both: tls_cert and tls_key")
        if self.token_file is None and self.host not in LOOPBACK:
            raise InvalidConfig(
                f"without tokens it listens on this machine alone, not on {self.host!r}: make a token with "
                "`tickwheel token`, and name the file it is in with --token-file"
            )

    def shown(self) -> "Config":
        """Return it as it may be printed: without the password in the URL of the store."""
        parts = urlsplit(self.store)
        if parts.password is None:
            return self
        netloc = parts.netloc.replace(f":{parts.password}@", ":***@")
        return msgspec.structs.replace(self, store=parts._replace(netloc=netloc).geturl())
