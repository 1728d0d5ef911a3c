"""The methods of `TTLCache` that are compiled.

A native class that is generic or a `MutableMapping` cannot be referred to weakly, and one that can be subclassed
calls its own methods slowly. So `TTLCache` is an ordinary class on top of this one, whose methods it inherits as they
are, and the work is done in `CacheStore`, which nobody subclasses:

    TTLCache      generic, a MutableMapping, interpreted
      CacheCore   cache[key], get, set, pop: native
        CacheStore
"""

from typing import Any

from mypy_extensions import mypyc_attr

from tickwheel.durations import argument_ns
from tickwheel.recipes.cache_store import MISSING, CacheStore

__all__ = ["CacheCore"]


@mypyc_attr(allow_interpreted_subclasses=True)
class CacheCore:
    """A mapping without its views, untyped: `TTLCache` has the types."""

    def __init__(self, store: CacheStore) -> None:
        self._store = store

    def __getitem__(self, key: Any) -> Any:
        value = self._store.read(key)
        if value is MISSING:
            raise KeyError(key)
        return value

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the value of a key, or a default; a hit makes the item the most recently used."""
        value = self._store.read(key)
        return default if value is MISSING else value

    def peek(self, key: Any, default: Any = None) -> Any:
        """Return the value of a key, or a default, without counting it as a use, a hit or a miss."""
        value = self._store.peek(key)
        return default if value is MISSING else value

    def __contains__(self, key: object) -> bool:
        return self._store.peek(key) is not MISSING

    def ttl(self, key: Any) -> float | None:
        """Return how many seconds an item has left; None if it is not there."""
        left_ns = self._store.left_ns(key)
        return left_ns / 1e9 if left_ns else None

    def __len__(self) -> int:
        return self._store.expire(to_the_ns=True)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._store.write(key, value, self._store.ttl_ns(key, value))

    def set(self, key: Any, value: Any, *, ttl: Any = None) -> None:
        """Set an item, with a time to live of its own if one is given."""
        self._store.write(key, value, self._store.ttl_ns(key, value) if ttl is None else argument_ns("ttl", ttl))

    def setdefault(self, key: Any, default: Any = None) -> Any:
        """Return the value of a key; if it is not there, set the default and return that, in one step."""
        value = self._store.read(key)
        if value is not MISSING:
            return value
        return self._store.write_absent(key, default, self._store.ttl_ns(key, default), None)

    def __delitem__(self, key: Any) -> None:
        if self._store.remove(key) is MISSING:
            raise KeyError(key)

    def pop(self, key: Any, default: Any = MISSING) -> Any:
        """Remove an item and return its value, or a default; raise KeyError if there is neither."""
        value = self._store.remove(key)
        if value is MISSING:
            value = default
        if value is MISSING:
            raise KeyError(key)
        return value

    def popitem(self) -> tuple[Any, Any]:
        """Remove and return the least recently used item; raise KeyError if there is none."""
        item = self._store.remove_oldest()
        if item is None:
            raise KeyError("the cache is empty")
        return item

    def clear(self) -> None:
        """Remove every item."""
        self._store.remove_all()

    def expire(self) -> None:
        """Free the memory of everything that has expired; each write does so for a few items."""
        self._store.expire(to_the_ns=True)
