"""`TTLCache`: a mapping whose items expire, and whose size is bounded.

    >>> from tickwheel.clock import VirtualClock
    >>> clock = VirtualClock()
    >>> cache = TTLCache(maxsize=1000, ttl="5m", clock=clock)
    >>> cache["user 7"] = "Ada"
    >>> cache.set("token", "abc", ttl="30s")
    >>> clock.advance("1m")
    >>> cache.get("token"), cache["user 7"]
    (None, 'Ada')

An expired item is never returned, to the nanosecond. Its memory is freed by later writes, a few items at a time, by
`expire()` and `len()`, or, with `timers`, when it expires. Beyond `maxsize` the least recently used items are evicted.

Every method may be called from any thread. Reading with `[]`, `get`, `setdefault` and `get_or_load` counts as a use,
and as a hit or a miss; `in`, `peek`, `ttl()`, `len()`, iteration and views do not. Iterators work on a snapshot of what
was there when they were made. Copy a cache with `dict(cache.items())`, which reads all items at once: `dict(cache)`
reads each by itself, and raises `KeyError` if one expires meanwhile.
"""

# ruff: noqa: D102 - methods whose types are given here have their docstrings in CacheCore

import os
from collections.abc import Callable, Hashable, ItemsView, Iterator, KeysView, MutableMapping, ValuesView
from inspect import CO_COROUTINE
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, overload
from weakref import WeakValueDictionary

from tickwheel.clock import Clock, SystemClock, monotonic_reader
from tickwheel.durations import Duration, argument_ns
from tickwheel.errors import AsyncCallback, InvalidCache, InvalidTimers, MissingCallback, NotCopyable, shown
from tickwheel.recipes.cache_core import CacheCore
from tickwheel.recipes.cache_forks import hold_all, let_go_all, renew_all, settle_all
from tickwheel.recipes.cache_loads import load
from tickwheel.recipes.cache_notices import Cause
from tickwheel.recipes.cache_store import FOREVER_NS, MISSING, CacheStore, whole_number
from tickwheel.recipes.cache_sweeper import CacheSweeper
from tickwheel.timers.forks import after_fork_in_child
from tickwheel.timers.timers import GENERATOR, AbstractTimers, code_flags

__all__ = ["Cause", "TTLCache"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
D = TypeVar("D")


class TTLCache(CacheCore, MutableMapping[K, V]):
    """A dict with a time to live for each item and a bound on how many there are.

    Copy it with `dict(cache.items())`: `dict(cache)` raises KeyError if an item expires while it is copied.

    ttl                  how long an item lives after it was set; or a function of key and value that returns it;
                         None if `expire_after_access` is all there is
    expire_after_access  how long an item lives after it was last set or read; with a ttl, whichever ends first
    weigher              a function of key and value that returns an int; `maxsize` then bounds the sum of these
    on_evict             called with key, value and cause after an item has left, by the thread that made it leave and
                         outside the lock; it may use the cache, and what it raises is logged
    timers               free expired items when their time comes, and not only on writes
    clock                where the time comes from: that of the timers or the system's by default
    """

    def __init__(
        self,
        maxsize: int,
        ttl: Duration | Callable[[K, V], Duration] | None,
        *,
        expire_after_access: Duration | None = None,
        weigher: Callable[[K, V], int] | None = None,
        on_evict: Callable[[K, V, Cause], object] | None = None,
        timers: AbstractTimers | None = None,
        clock: Clock | None = None,
    ) -> None:
        size = whole_number(maxsize)
        if size is None or size < 1:
            raise InvalidCache(f"invalid maxsize {shown(maxsize)}: expected an int of at least 1")
        for name, function in (("weigher", weigher), ("on_evict", on_evict)):
            if function is not None:
                _check_function(name, function)
        if timers is not None and not isinstance(timers, AbstractTimers):
            raise InvalidTimers(timers)
        if ttl is None and expire_after_access is None:
            raise InvalidCache("items would never expire: give a ttl, or expire_after_access, or both")
        access_ns = 0 if expire_after_access is None else argument_ns("expire_after_access", expire_after_access)
        if expire_after_access is not None and access_ns == 0:
            raise InvalidCache(f"invalid expire_after_access {shown(expire_after_access)}: expected more than 0 s")
        if ttl is None:
            ttl_ns, ttl_of = FOREVER_NS, None
        elif callable(ttl):
            _check_function("ttl", ttl)
            ttl_ns, ttl_of = 0, ttl
        else:
            ttl_ns, ttl_of = argument_ns("ttl", ttl), None
        now_ns = _reader(clock, timers)
        super().__init__(CacheStore(size, now_ns, ttl_ns, ttl_of, access_ns, weigher, on_evict))
        self._sweeper: CacheSweeper | None = None
        if timers is not None:
            self._sweeper = CacheSweeper(self, timers)
            self._store.planner = self._sweeper.plan
        _caches[id(self)] = self

    if TYPE_CHECKING:  # what CacheCore has without types

        def __getitem__(self, key: K) -> V: ...
        def __setitem__(self, key: K, value: V) -> None: ...
        def __delitem__(self, key: K) -> None: ...
        def set(self, key: K, value: V, *, ttl: Duration | None = None) -> None: ...
        def ttl(self, key: K) -> float | None: ...
        @overload
        def get(self, key: K, default: None = None) -> V | None: ...
        @overload
        def get(self, key: K, default: V | D) -> V | D: ...
        def get(self, key: K, default: Any = None) -> Any: ...
        @overload
        def peek(self, key: K, default: None = None) -> V | None: ...
        @overload
        def peek(self, key: K, default: V | D) -> V | D: ...
        def peek(self, key: K, default: Any = None) -> Any: ...
        @overload  # type: ignore[override]
        def pop(self, key: K) -> V: ...
        @overload
        def pop(self, key: K, default: V | D) -> V | D: ...
        def pop(self, key: K, default: Any = MISSING) -> Any: ...
        @overload  # type: ignore[override]
        def setdefault(self: "TTLCache[K, D | None]", key: K, default: None = None) -> D | None: ...
        @overload
        def setdefault(self, key: K, default: V) -> V: ...
        def setdefault(self, key: K, default: Any = None) -> Any: ...
        def popitem(self) -> tuple[K, V]: ...

    @property
    def maxsize(self) -> int:
        """How many items are kept at the most; with a weigher, how heavy they are."""
        return self._store.maxsize

    @property
    def weight(self) -> int:
        """How heavy the items are; without a weigher, how many there are."""
        return self._store.weight()

    @property
    def hits(self) -> int:
        """How many reads found an item."""
        return self._store.hits

    @property
    def misses(self) -> int:
        """How many reads found none."""
        return self._store.misses

    def __iter__(self) -> Iterator[K]:
        return iter([key for key, _ in self._store.live()])

    def keys(self) -> KeysView[K]:
        """Return a view of the keys; each iteration sees what was there when it began."""
        return _Keys(self)

    def items(self) -> ItemsView[K, V]:
        """Return a view of the items; each iteration sees what was there when it began."""
        return _Items(self)

    def values(self) -> ValuesView[V]:
        """Return a view of the values; each iteration sees what was there when it began."""
        return _Values(self)

    def get_or_load(self, key: K, loader: Callable[[K], V], *, ttl: Duration | None = None) -> V:
        """Return the value of a key; if it is not there, call `loader(key)`, set what it returns, and return that.

        Of the threads that ask for a key at the same time one calls the loader and the others wait for it. What it
        raises is raised in all of them, as one object, and nothing is set. Other keys are loaded at the same time. The
        item expires a ttl after the loader has returned. If the key is set or deleted meanwhile, that counts: the
        loaded value is returned, but not set. A loader that waits for its own result raises `RecursiveLoad`.
        """
        found: V = self._store.read(key)
        if found is not MISSING:
            return found
        if not callable(loader):
            raise MissingCallback(loader, "loader")
        if ttl is not None:
            argument_ns("ttl", ttl)  # refused before the loader is called
        loaded: V = load(self._store, key, loader, ttl)
        return loaded

    def _forget_timer(self) -> None:
        """Go on in a forked child, which has the items of its parent, but none of its timers."""
        if self._sweeper is not None:
            self._sweeper.forget_timer()

    def __reduce__(self) -> NoReturn:
        raise NotCopyable(self, "call update(cache.items()) of another cache instead; times to live start anew there")

    def __repr__(self) -> str:
        held = len(self._store.items)
        return f"<{type(self).__name__} items={held} maxsize={self.maxsize} hits={self.hits} misses={self.misses}>"


_caches: WeakValueDictionary[int, TTLCache[Any, Any]] = WeakValueDictionary()  # by id: a mapping has no hash


def _all_caches() -> list[TTLCache[Any, Any]]:
    return [cache for weak in _caches.valuerefs() if (cache := weak()) is not None]


def _before_fork() -> None:
    hold_all([cache._store for cache in _all_caches()])


def _renew_locks() -> None:
    caches = _all_caches()
    for cache in caches:
        cache._forget_timer()
    renew_all([cache._store for cache in caches])


os.register_at_fork(before=_before_fork, after_in_parent=let_go_all)
after_fork_in_child(_renew_locks, lambda: settle_all)


class _Keys(KeysView[K]):
    """Keys by snapshots."""

    __slots__ = ()
    _mapping: TTLCache[K, Any]

    def __iter__(self) -> Iterator[K]:
        return iter(self._mapping)


class _Items(ItemsView[K, V]):
    """Items by snapshots; looking for one counts as no use."""

    __slots__ = ()
    _mapping: TTLCache[K, V]

    def __iter__(self) -> Iterator[tuple[K, V]]:
        return iter(self._mapping._store.live())

    def __contains__(self, item: object) -> bool:
        if not isinstance(item, tuple) or len(item) != 2:  # noqa: PLR2004 - a key and a value
            return False
        found = self._mapping._store.peek(item[0])
        return found is not MISSING and (found is item[1] or found == item[1])


class _Values(ValuesView[V]):
    """Values by snapshots."""

    __slots__ = ()
    _mapping: TTLCache[Any, V]

    def __iter__(self) -> Iterator[V]:
        return iter([value for _, value in self._mapping._store.live()])

    def __contains__(self, value: object) -> bool:
        return any(found is value or found == value for found in self)


def _check_function(name: str, function: object) -> None:
    """Refuse what cannot be called, or would have to be awaited."""
    if not callable(function):
        raise InvalidCache(f"invalid {name} {shown(function)}: expected a function")
    if code_flags(function) & CO_COROUTINE:
        raise AsyncCallback(name, function)
    if code_flags(function) & GENERATOR:
        raise InvalidCache(f"invalid {name} {shown(function)}: the body of a generator function would never run")


def _reader(clock: Clock | None, timers: AbstractTimers | None) -> Callable[[], int]:
    """Return what reads the clock: the one given, that of the timers, or the system's."""
    if clock is None:
        clock = SystemClock() if timers is None else timers._clock
    return monotonic_reader(clock)
