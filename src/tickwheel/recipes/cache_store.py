"""The items of a `TTLCache` under one lock, on one clock, with notices of what leaves.

Writing takes the lock. Compiled, reading does not: between finding an item and returning its value no other thread
runs. User code runs outside the lock: `weigher` and `ttl` before it is taken, `on_evict` and the finalizers of values
after it is released. The lock is reentrant, because `__hash__` and `__eq__` of keys cannot be kept out, nor destructors
that the garbage collector runs when an object is made. `CacheItems` says how it copes with both; here, what leaves is
noted after it has left, and what a call within a call has noted is delivered by the outer one:

    cache["a"] = 1      lock ... a destructor: cache.pop("b") notes "b", keeps the lock ... unlock, on_evict("b", ...)
"""

from collections.abc import Callable
from operator import index
from threading import RLock
from types import CoroutineType
from typing import Any, Final, final

from mypy_extensions import i64

from tickwheel.durations import to_ns
from tickwheel.errors import AsyncCallback, InvalidDuration, InvalidWeight, UnstableKey
from tickwheel.recipes.cache_items import ABSENT, CacheItems, Item
from tickwheel.recipes.cache_notices import Cause, EvictionNotices

__all__ = ["FOREVER_NS", "MISSING", "CacheStore", "whole_number"]

# Between any two lines of the interpreted build another thread may run.
INTERPRETED: Final[bool] = __file__.endswith(".py")

FOREVER_NS: Final = -1  # instead of a time to live: only `expire_after_access` counts

MISSING: Final = object()

NO_PLAN: Final = -1  # instead of when an item expires: none was written

# How often an item is entered again after the code of a key has interfered. Code that uses the cache once needs one
# more attempt; a key that equals itself only sometimes would need any number.
ATTEMPTS_MAX: Final = 100


def whole_number(value: object) -> int | None:
    """Return an int, a subclass of it or one of numpy's as a plain int; None for anything else, and for a bool."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        return None
    unknown: Any = value
    try:
        number: int = index(unknown)
    except Exception:  # noqa: BLE001 - of the caller's class
        return None
    return number


def _refuse_coroutine(argument: str, function: object, given: Any) -> None:
    """Close a coroutine that a function of the user returned, and refuse the function."""
    if type(given) is CoroutineType:  # isinstance would run code of what was returned
        given.close()
        raise AsyncCallback(argument, function)


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
        self._plan_ns = NO_PLAN  # when the first item expires that was written under the lock
        self.renew_lock()

    def renew_lock(self) -> None:
        """Take a new lock: in a forked child, the old one may never be released."""
        lock: Any = RLock()
        self._acquire: Callable[..., object] = lock.acquire  # a `with` looks both up each time
        self._release: Callable[[], object] = lock.release
        self._depth: i64 = 0  # how many calls of the thread that holds the lock have taken it

    # -- forking: see cache_forks.py

    def hold(self, timeout_seconds: float, held: list["CacheStore"]) -> None:
        """Take the lock if that succeeds in time, and then add this store to those that are held."""
        if self._acquire(True, timeout_seconds):  # noqa: FBT003 - as RLock.acquire
            self._depth += 1
            held.append(self)

    def let_go(self) -> None:
        """Release a lock that is held; `settle` is called when those of the other caches are released too."""
        self._depth -= 1
        self._release()

    def settle(self) -> None:
        """Deliver what destructors have made leave while the lock was held."""
        self._lock()
        self._unlock()

    def begin_anew(self, *, held: bool) -> None:
        """Go on in a forked child; unless this thread holds the lock, one that does not exist may hold it."""
        if held:
            self.let_go()
        else:
            self.renew_lock()
        if self._notices is not None:
            self._notices.begin_anew()

    # -- reading

    def read(self, key: Any) -> Any:
        """Return the value of a key, or MISSING, and count it as used."""
        if INTERPRETED:
            self._lock()
            try:
                return self._use(key, self.now_ns())
            finally:
                self._unlock()
        return self._use(key, self.now_ns())

    def _use(self, key: Any, now_ns: int) -> Any:
        items = self.items
        item = items.by_key.get(key)
        if item is None or item.place < 0 or item.expires_ns <= now_ns:
            self.misses += 1
            return MISSING
        self.hits += 1
        if self._access_ns:
            expires_ns = now_ns + self._access_ns
            ends_ns = item.ttl_ends_ns
            if items.origin_ns < ends_ns < expires_ns:
                expires_ns = ends_ns
            # It may have been set while its key was compared, and so later than `now_ns`.
            item.expires_ns = max(item.expires_ns, expires_ns)
        items.use(item)
        return items.value(item)

    def peek(self, key: Any) -> Any:
        """Return the value of a key, or MISSING."""
        self._lock()
        try:
            item = self._find(key)
            return MISSING if item is None else self.items.value(item)
        finally:
            self._unlock()

    def left_ns(self, key: Any) -> int:
        """Return how long an item has left; 0 if it is not there."""
        self._lock()
        try:
            item = self.items.find(key)
            return 0 if item is None else max(item.expires_ns - self.now_ns(), 0)
        finally:
            self._unlock()

    def live(self) -> list[tuple[Any, Any]]:
        """List the keys and values that have not expired."""
        found: list[tuple[Any, Any]] = []
        self._lock()
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
            self._unlock()
        return found

    def _find(self, key: Any) -> Item | None:
        """Return the item of a key, unless it has expired by the time that it is found."""
        item = self.items.find(key)
        return None if item is None or item.expires_ns <= self.now_ns() or item.place < 0 else item

    # -- writing

    def ttl_ns(self, key: Any, value: Any) -> int:
        """Return the time to live of an item that is set without one."""
        if self._ttl_of is None:
            return self._ttl_ns
        given = self._ttl_of(key, value)
        try:
            return to_ns(given)
        except InvalidDuration as error:
            _refuse_coroutine("ttl", self._ttl_of, given)
            raise error.within("ttl") from None

    def write(self, key: Any, value: Any, ttl_ns: int) -> None:
        """Set an item."""
        weight = 1 if self._weigher is None else self._weigh(key, value)
        self._lock()
        try:
            if self.loads:
                self.loads.pop(key, None)
            self._store(key, value, ttl_ns, weight)
        finally:
            self._unlock()

    def write_absent(self, key: Any, value: Any, ttl_ns: int, load: Any) -> Any:
        """Set an item that is not there, and return the value that then is.

        With a load, set it only if no other write of the key came before. Those who wait for the load go on before
        notices are delivered: they need not wait for `on_evict`, which may wait for them.
        """
        weight = 1 if self._weigher is None else self._weigh(key, value)
        self._lock()
        try:
            if load is None or self.loads.get(key) is load:
                self.loads.pop(key, None)
                item = self._find(key)
                if item is not None:
                    return self.items.value(item)
                self._store(key, value, ttl_ns, weight)
            if load is not None:
                load.value = value
                load.over = True
                load.gate.release()
            return value
        finally:
            self._unlock()

    def _weigh(self, key: Any, value: Any) -> int:
        assert self._weigher is not None
        given = self._weigher(key, value)
        weight = whole_number(given)
        if weight is None or not 0 <= weight <= self.maxsize:
            _refuse_coroutine("weigher", self._weigher, given)
            raise InvalidWeight(key, given, self.maxsize)
        return weight

    def _store(self, key: Any, value: Any, ttl_ns: int, weight: int) -> None:
        """Set an item under the lock, and evict what is too much."""
        items = self.items
        now_ns = self.now_ns()
        if now_ns >= items.look_ns:
            self._expire_some(now_ns, to_the_ns=False)
        if ttl_ns == FOREVER_NS:
            ends_ns = items.origin_ns  # no item ends then: it has passed
            expires_ns = now_ns + self._access_ns
        else:
            ends_ns = now_ns + ttl_ns
            expires_ns = now_ns + self._access_ns if 0 < self._access_ns < ttl_ns else ends_ns
        item = items.find(key)
        if expires_ns <= now_ns or items.closed:  # it takes nobody's place
            if item is not None:
                self._drop(item, now_ns, "replaced")
            self._note(key, value, "expired")
            return
        if self.planner is not None and (self._plan_ns == NO_PLAN or expires_ns < self._plan_ns):
            self._plan_ns = expires_ns
        live = item is not None and item.expires_ns > now_ns
        old_value = ABSENT if item is None else items.replace(item, value, expires_ns, ends_ns, weight)
        if old_value is ABSENT:
            self._enter(key, value, expires_ns, ends_ns, weight, now_ns)
        else:
            self._note(key, old_value, "replaced" if live else "expired")
        while items.weight > self.maxsize:
            if items.all_due(now_ns):
                self._drop(items.oldest(), now_ns, "size")
            else:
                self._expire_some(now_ns, to_the_ns=True)

    def _enter(self, key: Any, value: Any, expires_ns: int, ends_ns: int, weight: int, now_ns: int) -> None:
        """Add an item of a key that has none: if there is no room, in place of the least recently used one."""
        items = self.items
        attempts = 0
        while attempts < ATTEMPTS_MAX:
            if items.weight + weight > self.maxsize and not items.all_due(now_ns):
                self._expire_some(now_ns, to_the_ns=True)
                continue
            item = items.enter(key, expires_ns, ends_ns, weight)
            if items.closed:
                self._note(key, value, "expired")
                return
            if item is not None:
                if items.weight + weight <= self.maxsize:  # now: the code of a key may have made room, or taken it
                    if items.add(item, key, value):
                        return
                else:
                    oldest = items.oldest()
                    old_key = items.key(oldest)
                    old_value = items.supersede(oldest, item, key, value)
                    if old_value is not ABSENT:
                        self._note(old_key, old_value, "size")
                        items.forget(oldest, old_key)
                        return
            attempts += 1
            found = items.find(key)
            if found is not None:
                self._drop(found, now_ns, "replaced")  # the code of a key has written it meanwhile
        raise UnstableKey(key)

    def remove(self, key: Any) -> Any:
        """Remove a key and return its value, or MISSING."""
        self._lock()
        try:
            if self.loads:
                self.loads.pop(key, None)
            while True:
                item = self.items.find(key)
                now_ns = self.now_ns()
                if item is None or item.place < 0 or item.expires_ns <= now_ns:
                    return MISSING
                value = self._drop(item, now_ns, "deleted")
                if value is not ABSENT:
                    return value
        finally:
            self._unlock()

    def remove_oldest(self) -> tuple[Any, Any] | None:
        """Remove the least recently used item that has not expired, and return its key and value."""
        items = self.items
        self._lock()
        try:
            now_ns = self.now_ns()
            while len(items):
                item = items.oldest()
                live = item.expires_ns > now_ns
                key = items.key(item)
                value = self._drop(item, now_ns, "deleted")
                if live and value is not ABSENT:
                    self.loads.pop(key, None)
                    return key, value
            return None
        finally:
            self._unlock()

    def remove_all(self) -> None:
        """Remove every item."""
        self._lock()
        try:
            self.loads.clear()
            now_ns = self.now_ns()
            while len(self.items):
                self._drop(self.items.oldest(), now_ns, "deleted")
        finally:
            self._unlock()

    def _drop(self, item: Item, now_ns: int, cause: Cause) -> Any:
        """Remove an item and return its value; ABSENT if it has left."""
        key = self.items.key(item)
        expired = item.expires_ns <= now_ns
        value = self.items.take_out(item)
        if value is not ABSENT:
            self._note(key, value, "expired" if expired else cause)
            self.items.forget(item, key)  # last: it runs the code of keys, which may use the cache, or raise
        return value

    def _note(self, key: Any, value: Any, cause: Cause) -> None:
        """Keep what left until the lock is released."""
        if self._notices is None:
            self._gone.append(value)
            return
        notice = (key, value, cause)  # may run a destructor, and that may have the list replaced
        self._gone.append(notice)

    def _lock(self) -> None:
        """Take the lock.

        In a method, as `_unlock` is: where the recursion limit allows one call, it allows the other.
        """
        self._acquire()
        self._depth += 1

    def _unlock(self) -> None:
        """Release the lock; the outermost call drops what left under it, delivers the notices, and plans a sweep."""
        if self._depth > 1 or not (self._gone or self._plan_ns != NO_PLAN):
            self._depth -= 1
            self._release()
            return
        try:
            none_gone: list[Any] = []  # may run a destructor, and that may add to what is gone
        except BaseException:  # no memory: what is gone waits for the next call
            self._depth -= 1
            self._release()
            raise
        gone = self._gone
        plan_ns = self._plan_ns
        self._gone = none_gone
        self._plan_ns = NO_PLAN
        self._depth = 0
        self._release()
        planner = self.planner
        if planner is None or plan_ns == NO_PLAN:
            if self._notices is not None:
                self._notices.deliver(gone)
            return
        try:
            if self._notices is not None:
                self._notices.deliver(gone)
        finally:  # also if `on_evict` has raised what ends the program: the item was written
            planner(plan_ns)

    # -- loading: here, because an interrupt between two lines of interpreted code would leave the lock taken

    def begin_load(self, key: Any, own: Any) -> Any:
        """Return the value of a key, the load that is under way, or our own, which is listed then."""
        self._lock()
        try:
            item = self._find(key)
            if item is not None:
                return self.items.value(item)
            running = self.loads.get(key)
            if running is None or not running.runs():
                self.loads[key] = own
                return own
            return running
        finally:
            self._unlock()

    def end_load(self, key: Any, own: Any) -> None:
        """Take a load out of the list, if it is there, and let those go on who still wait for it."""
        try:
            self._lock()
            try:
                if self.loads.get(key) is own:
                    self.loads.pop(key, None)  # the code of the key may have written it since
            finally:
                self._unlock()
        finally:
            if not own.over:
                own.over = True
                own.gate.release()

    # -- expiry

    def next_look_ns(self) -> int | None:
        """Return when something may expire; None if there is nothing."""
        self._lock()
        try:
            return self.items.next_look_ns()
        finally:
            self._unlock()

    def _expire_some(self, now_ns: int, *, to_the_ns: bool) -> None:
        """Remove what has expired, under the lock, up to a batch."""
        items = self.items
        more = items.gather_due(now_ns, to_the_ns=to_the_ns)
        item = items.next_due()
        while item is not None:
            if item.place >= 0:
                if item.expires_ns <= now_ns:
                    self._drop(item, now_ns, "expired")
                else:
                    items.schedule(item, item.expires_ns)
            items.pass_over(item)  # not before: what interrupts the code of a key leaves it to the next call
            item = items.next_due()
        if not more:
            items.all_passed()

    def weight(self) -> int:
        """Return how heavy the items are that have not expired."""
        self.expire(to_the_ns=True)
        self._lock()  # a write on another thread may be half done
        try:
            return self.items.weight
        finally:
            self._unlock()

    def expire(self, *, to_the_ns: bool) -> int:
        """Remove all that has expired, a batch at a time, and return how many items are left."""
        while True:
            self._lock()
            try:
                now_ns = self.now_ns()
                self._expire_some(now_ns, to_the_ns=to_the_ns)
                left = len(self.items)
                done = not self.items.more_due(now_ns)
            finally:
                self._unlock()
            if done:
                return left
