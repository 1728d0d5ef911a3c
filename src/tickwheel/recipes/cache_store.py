"""The items of a `TTLCache` under one lock, on one clock, with notices of what leaves.

Writing takes the lock. Compiled, reading does not: between finding an item and returning its value no other thread
runs. User code runs outside the lock: `weigher` and `ttl` before it is taken, `on_evict` and the finalizers of values
after it is released. The lock is reentrant, because `__hash__` and `__eq__` of keys cannot be kept out.
"""

from collections.abc import Callable
from threading import RLock
from typing import Any, Final, final

from tickwheel.durations import to_ns
from tickwheel.errors import InvalidWeight
from tickwheel.recipes.cache_items import CacheItems, Item
from tickwheel.recipes.cache_notices import Cause, EvictionNotices

__all__ = ["FOREVER_NS", "MISSING", "CacheStore"]

# Between any two lines of the interpreted build another thread may run.
INTERPRETED: Final[bool] = __file__.endswith(".py")

FOREVER_NS: Final = 2**61  # 73 years: a native integer still holds the sum of this and a reading of the clock

MISSING: Final = object()


@final
class CacheStore:
    """Everything a cache does; `TTLCache` checks what it is made with."""

    def __init__(
        self,
        maxsize: int,
        now_ns: Callable[[], int],
        ttl_ns: int,
        ttl_of: Callable[[Any, Any], Any] | None,
        access_ns: int,
        weigher: Callable[[Any, Any], object] | None,
        on_evict: Callable[[Any, Any, Cause], object] | None,
    ) -> None:
        self.maxsize = maxsize
        self.now_ns = now_ns
        self.hits = 0
        self.misses = 0
        self.items = CacheItems(now_ns())
        self.loads: dict[Any, Any] = {}  # of `get_or_load`, by key; a write of the key takes its load out
        self.planner: Callable[[int], object] | None = None  # told when the item expires that was written
        self._ttl_ns = ttl_ns
        self._ttl_of = ttl_of
        self._access_ns = access_ns  # 0: reading does not extend
        self._weigher = weigher
        self._notices = None if on_evict is None else EvictionNotices(on_evict)
        self._gone: list[Any] = []  # (key, value, cause) of what left under the lock; without on_evict the value
        self.renew_lock()

    def renew_lock(self) -> None:
        """Take a new lock: in a forked child, the old one may never be released."""
        lock: Any = RLock()
        self.acquire: Callable[[], object] = lock.acquire  # a `with` looks both up each time
        self.release: Callable[[], object] = lock.release

    # -- reading

    def read(self, key: Any) -> Any:
        """Return the value of a key, or MISSING, and count it as used."""
        if INTERPRETED:
            self.acquire()
            try:
                return self._use(key, self.now_ns())
            finally:
                self.release()
        return self._use(key, self.now_ns())

    def _use(self, key: Any, now_ns: int) -> Any:
        items = self.items
        item = items.by_key.get(key)
        if item is None or item.place < 0 or item.expires_ns <= now_ns:
            self.misses += 1
            return MISSING
        self.hits += 1
        if self._access_ns:
            item.expires_ns = min(now_ns + self._access_ns, item.ttl_ends_ns)
        items.use(item)
        return items.value(item)

    def peek(self, key: Any) -> Any:
        """Return the value of a key, or MISSING."""
        self.acquire()
        try:
            item = self._find(key, self.now_ns())
            return MISSING if item is None else self.items.value(item)
        finally:
            self.release()

    def left_ns(self, key: Any) -> int:
        """Return how long an item has left; 0 if it is not there."""
        self.acquire()
        try:
            now_ns = self.now_ns()
            item = self._find(key, now_ns)
            return 0 if item is None else item.expires_ns - now_ns
        finally:
            self.release()

    def live(self) -> list[tuple[Any, Any]]:
        """List the keys and values that have not expired."""
        found: list[tuple[Any, Any]] = []
        self.acquire()
        try:
            now_ns = self.now_ns()
            items = self.items
            found.extend(
                [
                    (items.key(item), items.value(item))
                    for item in list(items.by_key.values())  # a copy: making tuples may run finalizers
                    if item.place >= 0 and item.expires_ns > now_ns
                ]
            )
        finally:
            self.release()
        return found

    def _find(self, key: Any, now_ns: int) -> Item | None:
        item = self.items.find(key)
        return None if item is None or item.expires_ns <= now_ns else item

    # -- writing

    def ttl_ns(self, key: Any, value: Any) -> int:
        """Return the time to live of an item that is set without one."""
        return self._ttl_ns if self._ttl_of is None else to_ns(self._ttl_of(key, value))

    def write(self, key: Any, value: Any, ttl_ns: int) -> None:
        """Set an item."""
        weight = 1 if self._weigher is None else self._weigh(key, value)
        self.acquire()
        try:
            if self.loads:
                self.loads.pop(key, None)
            expires_ns = self._store(key, value, ttl_ns, weight)
        finally:
            self._unlock()
        if self.planner is not None:
            self.planner(expires_ns)

    def write_absent(self, key: Any, value: Any, ttl_ns: int, load: object) -> Any:
        """Set an item that is not there, and return the value that then is.

        With a load, set it only if no other write of the key came before.
        """
        weight = 1 if self._weigher is None else self._weigh(key, value)
        self.acquire()
        try:
            if load is not None and self.loads.get(key) is not load:
                return value
            self.loads.pop(key, None)
            item = self._find(key, self.now_ns())
            if item is not None:
                return self.items.value(item)
            expires_ns = self._store(key, value, ttl_ns, weight)
        finally:
            self._unlock()
        if self.planner is not None:
            self.planner(expires_ns)
        return value

    def _weigh(self, key: Any, value: Any) -> int:
        assert self._weigher is not None
        weight = self._weigher(key, value)
        if isinstance(weight, bool) or not isinstance(weight, int) or not 0 <= weight <= self.maxsize:
            raise InvalidWeight(key, weight, self.maxsize)
        return weight

    def _store(self, key: Any, value: Any, ttl_ns: int, weight: int) -> int:
        """Set an item under the lock, evict what is too much, and return when the item expires."""
        items = self.items
        now_ns = self.now_ns()
        if now_ns >= items.look_ns:
            self._expire_some(now_ns, to_the_ns=False)
        ends_ns = now_ns + ttl_ns
        expires_ns = ends_ns
        if self._access_ns and self._access_ns < ttl_ns:
            expires_ns = now_ns + self._access_ns
        item = items.find(key)
        if expires_ns <= now_ns or items.closed:  # it takes nobody's place
            if item is not None:
                self._drop(item, now_ns, "replaced")
            self._note(key, value, "expired")
            return expires_ns
        if item is not None:
            self._note(key, items.value(item), "replaced" if item.expires_ns > now_ns else "expired")
            items.replace(item, value, expires_ns, weight)
        else:
            item = self._enter(key, value, expires_ns, weight, now_ns)
        item.ttl_ends_ns = ends_ns
        while items.weight > self.maxsize:
            if items.all_due(now_ns):
                self._drop(items.oldest(), now_ns, "size")
            else:
                self._expire_some(now_ns, to_the_ns=True)
        return expires_ns

    def _enter(self, key: Any, value: Any, expires_ns: int, weight: int, now_ns: int) -> Item:
        """Make an item of a key that has none: a new one or, if there is no room, the least recently used one."""
        items = self.items
        while True:
            if items.weight + weight <= self.maxsize:
                item = items.add(key, value, expires_ns, weight)
                if item is not None:
                    return item
                found = items.find(key)
                if found is None:
                    continue
                self._drop(found, now_ns, "replaced")  # the code of a key has written it meanwhile
            elif not items.all_due(now_ns):
                self._expire_some(now_ns, to_the_ns=True)
            else:
                oldest = items.oldest()
                old_key = items.key(oldest)
                old_value = items.value(oldest)
                if items.relabel(oldest, old_key, key, value):
                    self._note(old_key, old_value, "size")
                    items.replace(oldest, value, expires_ns, weight)
                    return oldest
                if oldest.place >= 0:
                    self._drop(oldest, now_ns, "size")

    def remove(self, key: Any) -> Any:
        """Remove a key and return its value, or MISSING."""
        self.acquire()
        try:
            if self.loads:
                self.loads.pop(key, None)
            now_ns = self.now_ns()
            item = self._find(key, now_ns)
            if item is None:
                return MISSING
            value = self.items.value(item)
            self._drop(item, now_ns, "deleted")
            return value
        finally:
            self._unlock()

    def remove_oldest(self) -> tuple[Any, Any] | None:
        """Remove the least recently used item that has not expired, and return its key and value."""
        items = self.items
        self.acquire()
        try:
            now_ns = self.now_ns()
            while len(items):
                item = items.oldest()
                live = item.expires_ns > now_ns
                key, value = items.key(item), items.value(item)
                self._drop(item, now_ns, "deleted")
                if live:
                    self.loads.pop(key, None)
                    return key, value
            return None
        finally:
            self._unlock()

    def remove_all(self) -> None:
        """Remove every item."""
        self.acquire()
        try:
            self.loads.clear()
            now_ns = self.now_ns()
            while len(self.items):
                self._drop(self.items.oldest(), now_ns, "deleted")
        finally:
            self._unlock()

    def _drop(self, item: Item, now_ns: int, cause: Cause) -> None:
        key = self.items.key(item)
        value = self.items.value(item)
        expired = item.expires_ns <= now_ns
        if self.items.remove(item, key):
            self._note(key, value, "expired" if expired else cause)

    def _note(self, key: Any, value: Any, cause: Cause) -> None:
        """Keep what leaves until the lock is released."""
        self._gone.append(value if self._notices is None else (key, value, cause))

    def _unlock(self) -> None:
        """Release the lock, drop what left under it, and deliver the notices of it."""
        gone = self._gone
        if not gone:
            self.release()
            return
        self._gone = []
        self.release()
        if self._notices is not None:
            self._notices.deliver(gone)

    # -- expiry

    def _expire_some(self, now_ns: int, *, to_the_ns: bool) -> None:
        """Remove what has expired, under the lock, up to a batch."""
        due = self.items.due(now_ns, to_the_ns=to_the_ns)
        done = 0
        try:
            for item in due:
                if item.place >= 0:
                    if item.expires_ns <= now_ns:
                        self._drop(item, now_ns, "expired")
                    else:
                        self.items.schedule(item)
                done += 1
        finally:
            if done < len(due):  # interrupted in the code of a key
                self.items.put_back(due[done:])

    def expire(self, *, to_the_ns: bool) -> int:
        """Remove all that has expired, a batch at a time, and return how many items are left."""
        while True:
            self.acquire()
            try:
                now_ns = self.now_ns()
                self._expire_some(now_ns, to_the_ns=to_the_ns)
                left = len(self.items)
                done = self.items.look_ns > now_ns
            finally:
                self._unlock()
            if done:
                return left
