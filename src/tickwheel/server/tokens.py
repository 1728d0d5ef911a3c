"""Who may do what: tokens in a file, each with a role, none of them readable.

    # name   role    SHA-256 of the token
    ci       write   9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08

A token is 256 bits of chance, so that a plain hash is enough: there is nothing to guess from.
"""

import hashlib
import secrets
from pathlib import Path
from typing import Final, Literal, get_args

import msgspec

from tickwheel.errors import InvalidConfig

__all__ = ["ROLES", "Holder", "Role", "Tokens", "make_token"]

Role = Literal["read", "write", "admin"]
ROLES: Final[tuple[Role, ...]] = get_args(Role)  # each may do what those before it may

TOKENS_MAX: Final = 1_000
HASH_CHARS: Final = 64
FIELDS: Final = 3  # of a line


class Holder(msgspec.Struct, frozen=True):
    """Who has a token, and what it is good for."""

    name: str
    role: Role

    def may(self, needed: Role) -> bool:
        """Tell whether the role is enough."""
        return ROLES.index(self.role) >= ROLES.index(needed)


def hash_of(token: str) -> str:
    """Return what is kept of a token."""
    return hashlib.sha256(token.encode(errors="replace")).hexdigest()


def make_token(name: str, role: Role) -> tuple[str, str]:
    """Make a token; return it, and the line for the token file."""
    if not name or any(letter.isspace() or letter == "#" for letter in name):
        raise InvalidConfig(f"the name of a token is a word, not {name!r}")
    if role not in ROLES:
        raise InvalidConfig(f"a role is {', '.join(ROLES)}, not {role!r}")
    token = f"tw_{secrets.token_urlsafe(32)}"
    return token, f"{name} {role} {hash_of(token)}"


class Tokens:
    """The tokens of a server."""

    def __init__(self, holders: dict[str, Holder]) -> None:
        self._holders = holders

    @classmethod
    def read(cls, path: Path) -> "Tokens":
        """Read a token file."""
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidConfig(f"the token file {path} cannot be read: {error}") from None
        holders: dict[str, Holder] = {}
        for number, line in enumerate(lines, 1):
            fields = line.partition("#")[0].split()
            if not fields:
                continue
            if len(fields) != FIELDS or fields[1] not in ROLES or len(fields[2]) != HASH_CHARS:
                raise InvalidConfig(f"{path}, line {number}: a line is `name role hash`; `tickwheel token` prints one")
            holders[fields[2].lower()] = Holder(fields[0], fields[1])
        if not 1 <= len(holders) <= TOKENS_MAX:
            raise InvalidConfig(f"{path} has {len(holders)} tokens; there are from 1 to {TOKENS_MAX:,}")
        return cls(holders)

    def holder_of(self, token: str) -> Holder | None:
        """Find out whose token it is, in the same time whether it is anyone's."""
        hashed, found = hash_of(token), None
        for known, holder in self._holders.items():
            if secrets.compare_digest(known, hashed):
                found = holder
        return found
