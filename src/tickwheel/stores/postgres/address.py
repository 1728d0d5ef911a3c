"""Where the tables are: a PostgreSQL URL, with a schema of its own in it.

>>> Address.of("postgresql://ann@db.example/shop?schema=jobs&sslmode=require")
Address(url='postgresql://ann@db.example/shop?sslmode=require', schema='jobs')
>>> Address.of("postgresql://ann:secret@db.example/shop").shown
'postgresql://db.example/shop?schema=tickwheel'
"""

import re
from typing import Final
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import msgspec

from tickwheel.errors import StoreError

__all__ = ["SCHEMA", "Address"]

SCHEMA: Final = "tickwheel"
NAME: Final = re.compile(r"[a-z_][a-z0-9_]{0,62}")  # what needs no quotes, and fits PostgreSQL's 63 bytes


class Address(msgspec.Struct, frozen=True):
    """What to connect to, and which schema to use there."""

    url: str
    schema: str

    @classmethod
    def of(cls, url: str) -> "Address":
        """Read a URL; its schema is ours, and everything else is for the driver."""
        parts = urlsplit(url)
        options = parse_qsl(parts.query, keep_blank_values=True)
        schema = next((value for name, value in options if name == "schema"), SCHEMA)
        if not NAME.fullmatch(schema):
            raise StoreError(f"schema={schema}: a schema is named with up to 63 small letters, digits and underscores")
        left = urlencode([(name, value) for name, value in options if name != "schema"])
        return cls(urlunsplit(parts._replace(query=left)), schema)

    @property
    def shown(self) -> str:
        """What to call it in messages: nobody's name, and no password."""
        parts = urlsplit(self.url)
        place = parts.netloc.rpartition("@")[2]
        return urlunsplit(("postgresql", place, parts.path, f"schema={self.schema}", ""))

    @property
    def channel(self) -> str:
        """Where hints are told and heard; the function tickwheel_add names it alike."""
        return f"tickwheel:{self.schema}"
