"""Opening the store: which layout of keys is there, and what is made of an empty prefix."""

from typing import Final

import msgspec

from tickwheel.errors import SchemaTooNew, StoreError
from tickwheel.stores.etcd.keys import Keys
from tickwheel.stores.etcd.members import Members
from tickwheel.stores.etcd.requests import ask_all, ask_key, put, stands, transaction

__all__ = ["VERSION", "Layout", "prepare"]

VERSION: Final = 1  # of the layout in keys.py


class Layout(msgspec.Struct, frozen=True):
    """What is written about a store when it is made."""

    version: int
    partitions: int


async def prepare(keys: Keys, members: Members, partitions: int) -> int:
    """Begin a store, unless there is one already; return how many partitions it has."""
    shown = members.address.shown
    found, any_key = await members.read([ask_key(keys.version), ask_all(keys.prefix, limit=1, only="keys")])
    if not found.kvs and any_key.kvs:
        raise StoreError(f"{shown}: below this prefix are keys of something else; choose another one in the URL")
    if not found.kvs:
        layout = msgspec.json.encode(Layout(VERSION, partitions))
        # Who comes second finds what the first one made; and it may be that we are both.
        await members.write_again(transaction([stands(keys.version, 0)], [put(keys.version, layout)]))
        [found] = await members.read([ask_key(keys.version)])
    try:
        stored = msgspec.json.decode(found.kvs[0].value, type=Layout)
    except (msgspec.DecodeError, IndexError) as error:
        raise StoreError(f"{shown}: what kind of store this is cannot be read ({error}); it is damaged") from error
    if stored.version > VERSION:
        raise SchemaTooNew(stored.version, VERSION)
    return stored.partitions
