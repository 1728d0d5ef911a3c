"""How a script is called: by its sum, with one key that says which server, and one message.

>>> lead_key("tickwheel", 17), lead_key("tickwheel", META)
('{tickwheel:17}:lease', '{tickwheel}:meta')
"""

from typing import Final
from zlib import crc32

from tickwheel.stores.redis.connections import Command
from tickwheel.stores.redis.scripts import SHAS

__all__ = ["META", "SERVERS_CLOCK", "call", "home_of", "lead_key"]

META: Final = -1  # in place of a partition: what belongs to the store as a whole
SERVERS_CLOCK: Final = -1  # in place of a time


def lead_key(name: str, part: int) -> str:
    """Return the key that stands for a partition."""
    return "{" + name + "}:meta" if part == META else "{" + f"{name}:{part}" + "}:lease"


def call(script: str, name: str, key: str, now: int, message: bytes) -> Command:
    """Return the command that runs a script."""
    return ["EVALSHA", SHAS[script], 1, key, name, now, message]


def home_of(task_id: str, partitions: int) -> int:
    """Return the partition in which an id is looked for first: the one that schedulers put it into."""
    return crc32(task_id.encode()) % partitions
