"""Where the cluster is: the endpoints of its members, and a prefix of the store's own.

>>> Address.of("etcd://a.example:2379,b.example/shop").endpoints
('a.example:2379', 'b.example:2379')
>>> Address.of("etcd://ann:secret@a.example/shop/jobs?ca=/etc/ca.pem").shown
'etcd://a.example:2379/shop/jobs'
>>> Address.of("etcd://a.example").prefix
b'tickwheel/'
"""

from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec

from tickwheel.errors import StoreError

__all__ = ["Address"]

PORT: Final = 2379
PREFIX: Final = "tickwheel"
PREFIX_BYTES_MAX: Final = 255
FILES: Final = ("ca", "cert", "key")


class Address(msgspec.Struct, frozen=True):
    """What to connect to, as whom, and below which prefix everything is."""

    endpoints: tuple[str, ...]
    prefix: bytes
    user: str = ""
    password: str = ""
    tls: bool = False
    ca: str = ""
    cert: str = ""
    key: str = ""

    @classmethod
    def of(cls, url: str) -> "Address":
        """Read a URL."""
        parts = urlsplit(url)
        login, _, hosts = parts.netloc.rpartition("@")
        user, _, password = login.partition(":")
        endpoints = tuple(dict.fromkeys(_endpoint(host) for host in hosts.split(",")))
        prefix = (unquote(parts.path).strip("/") or PREFIX).encode() + b"/"
        if len(prefix) > PREFIX_BYTES_MAX or b"\0" in prefix:
            raise StoreError(f"a prefix is a text of at most {PREFIX_BYTES_MAX - 1} bytes, not {parts.path!r:.300}")
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
        if unknown := options.keys() - set(FILES):
            raise StoreError(f"there is no option {min(unknown)!r} of an etcd store; there are {', '.join(FILES)}")
        if ("cert" in options) != ("key" in options):
            raise StoreError("a certificate needs its key, and a key its certificate: give both cert= and key=")
        tls = parts.scheme == "etcds" or bool(options)
        return cls(endpoints, prefix, unquote(user), unquote(password), tls, **options)

    @property
    def shown(self) -> str:
        """What to call it in messages: nobody's name, and no password."""
        return f"etcd://{','.join(self.endpoints)}/{self.prefix[:-1].decode()}"

    def read(self, name: str) -> bytes | None:
        """Read a file of TLS: "ca", "cert" or "key"."""
        path = getattr(self, name)
        try:
            return Path(path).read_bytes() if path else None
        except OSError as error:
            raise StoreError(f"{name}={path}: it cannot be read ({error.strerror})") from error


def _endpoint(host: str) -> str:
    try:
        parts = urlsplit(f"//{host}")
        port = parts.port or PORT
    except ValueError as error:
        raise StoreError(f"{host!r} is no endpoint: {error}") from error
    if not parts.hostname or parts.path:
        raise StoreError("an etcd URL names the members of a cluster: etcd://a:2379,b:2379,c:2379/prefix")
    name = parts.hostname
    return f"[{name}]:{port}" if ":" in name else f"{name}:{port}"
