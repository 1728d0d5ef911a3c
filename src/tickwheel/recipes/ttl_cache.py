"""`TTLCache`: a mapping whose items expire, and whose size is bounded.

    >>> from tickwheel.clock import VirtualClock
    >>> clock = VirtualClock()
    >>> cache = TTLCache(maxsize=1000, ttl="5m", clock=clock)
    >>> cache["user 7"] = "Ada"
    >>> cache.set("token", "abc", ttl="30s")
    >>> clock.advance("1m")
    >>> cache.get("token"), cache["user 7"]
    (None, 'Ada')

An expired item is never handed out, to the nanosecond. Its memory is freed when the cache is next written to or
counted, or, given a set of timers, when its time is over, whether anyone looks or not. Beyond `maxsize`, what
was used least recently goes. Safe from any thread; `on_evict(key, value, cause)` is called outside the lock.

Items are in a dict, on a wheel by when they expire, and in a ring by when they were used:

    ring     oldest <-> ... <-> newest          a used item moves to the end; the oldest goes when there are too many

Compiled, reading takes no lock: native code is not interrupted between two links of the ring.
"""

from collections.abc import Callable, Hashable, Iterator, MutableMapping
from threading import RLock
from typing import Any, Final, Generic, Literal, TypeVar

from tickwheel.clock import Clock, SystemClock
from tickwheel.durations import Duration, to_ns
from tickwheel.errors import InvalidCache
from tickwheel.timers.handle import TimerHandle
from tickwheel.timers.timers import AbstractTimers
from tickwheel.wheels.geometry import BINARY
from tickwheel.wheels.hierarchical_wheel import HierarchicalWheel
from tickwheel.wheels.timer import Timer

__all__ = ["Cause", "TTLCache"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

Cause = Literal["expired", "size", "replaced", "deleted"]

TICK_NS: Final[int] = BINARY.tick_ns


# Between any two lines of the interpreted build another thread may come in.
INTERPRETED: Final[bool] = __file__.endswith(".py")


class Item(Generic[V]):
    """A value, when it is over, and its neighbours in the order of use."""

    __slots__ = ("expires_ns", "key", "newer", "older", "timer", "value")

    def __init__(self, key: Any, value: V, expires_ns: int, timer: Timer | None) -> None:
        self.key = key
        self.value = value
        self.expires_ns = expires_ns
        self.timer = timer
        self.older: Item[V] = self
        self.newer: Item[V] = self

    def link_before(self, end: "Item[V]") -> None:
        """Become the newest of the ring that an item ends."""
        self.older = end.older
        self.newer = end
        end.older.newer = self
        end.older = self

    def unlink(self) -> None:
        """Leave the ring; harmless outside of one."""
        self.older.newer = self.newer
        self.newer.older = self.older
        self.older = self
        self.newer = self


class TTLCache(MutableMapping[K, V]):
    """A dict with a time to live for each item and a bound on how many there are."""

    def __init__(
        self,
        maxsize: int,
        ttl: Duration,
        *,
        on_evict: Callable[[K, V, Cause], object] | None = None,
        timers: AbstractTimers | None = None,
        clock: Clock | None = None,
    ) -> None:
        if maxsize < 1:
            raise InvalidCache(f"maxsize is how many items to keep, at least 1, not {maxsize!r}")
        self._maxsize = maxsize
        self._ttl_ns = to_ns(ttl)
        self._on_evict = on_evict
        self._timers = timers
        self._sweep: TimerHandle | None = None
        self._now_ns: Callable[[], int] = SystemClock.monotonic_ns if clock is None else clock.monotonic_ns
        self._origin_ns = self._now_ns()
        self._wheel = HierarchicalWheel(BINARY)
        self._items: dict[K, Item[V]] = {}
        nothing: Any = None
        self._end: Item[V] = Item(
            nothing, nothing, 0, None
        )  # of the ring: its neighbours are the oldest and the newest
        self._lock: Any = RLock()
        self._acquire: Callable[[], object] = self._lock.acquire  # a `with` looks both up each time
        self._release: Callable[[], object] = self._lock.release
        self._gone: list[tuple[K, V, Cause]] = []
        self.hits = 0
        self.misses = 0

    @property
    def maxsize(self) -> int:
        """How many items are kept at the most."""
        return self._maxsize

    # -- reading

    def __getitem__(self, key: K) -> V:
        item = self._items.get(key)
        if item is None or item.expires_ns <= self._now_ns():
            self.misses += 1
            raise KeyError(key)
        self.hits += 1
        if INTERPRETED:
            with self._lock:
                self._use(item)
        else:
            self._use(item)
        return item.value

    def _use(self, item: Item[V]) -> None:
        if item.newer is not item:  # it may have left since it was found
            item.unlink()
            item.link_before(self._end)

    def __contains__(self, key: object) -> bool:
        wanted: Any = key  # anything may be asked for
        item = self._items.get(wanted)
        return item is not None and item.expires_ns > self._now_ns()

    def ttl(self, key: K) -> float | None:
        """Tell how many seconds an item has left; None if it is not there."""
        item = self._items.get(key)
        left_ns = 0 if item is None else item.expires_ns - self._now_ns()
        return left_ns / 1e9 if left_ns > 0 else None

    def __iter__(self) -> Iterator[K]:
        now_ns = self._now_ns()
        with self._lock:
            return iter([key for key, item in self._items.items() if item.expires_ns > now_ns])

    def __len__(self) -> int:
        now_ns = self._now_ns()
        self.expire()
        with self._lock:
            # The wheel is at most a tick behind: a handful of items at its hand may be over.
            return (
                sum(item.expires_ns > now_ns for item in self._items.values())
                if self._wheel_is_behind()
                else len(self._items)
            )

    # -- writing

    def __setitem__(self, key: K, value: V) -> None:
        self._put(key, value, self._ttl_ns)

    def set(self, key: K, value: V, *, ttl: Duration | None = None) -> None:
        """Set an item with a time to live of its own."""
        self._put(key, value, self._ttl_ns if ttl is None else to_ns(ttl))

    def __delitem__(self, key: K) -> None:
        with self._lock:
            item = self._items.get(key)
            if item is None or item.expires_ns <= self._now_ns():
                raise KeyError(key)
            self._drop(key, "deleted")
        self._tell()

    def clear(self) -> None:
        """Delete everything."""
        with self._lock:
            for key in list(self._items):
                self._drop(key, "deleted")
        self._tell()

    def expire(self) -> None:
        """Free the memory of what has expired; done by itself when something is written."""
        with self._lock:
            self._expire(self._now_ns())
        self._tell()

    def _put(self, key: K, value: V, ttl_ns: int) -> None:
        self._acquire()
        try:
            now_ns = self._now_ns()
            self._expire(now_ns)
            if key in self._items:
                self._drop(key, "replaced")
            if ttl_ns == 0:
                self._note(key, value, "expired")  # over before it began: it takes nobody's place
            else:
                self._store(key, value, now_ns + ttl_ns)
        finally:
            self._release()
        if self._gone:
            self._tell()

    def _store(self, key: K, value: V, expires_ns: int) -> None:
        due_tick = (expires_ns - self._origin_ns + TICK_NS - 1) // TICK_NS
        timer = self._wheel.start(max(due_tick - self._wheel._now, 0), key)
        item = Item(key, value, expires_ns, timer)
        self._items[key] = item
        item.link_before(self._end)
        if len(self._items) > self._maxsize:
            self._drop(self._end.newer.key, "size")
        if self._timers is not None:
            self._plan_sweep(self._timers)

    def _expire(self, now_ns: int) -> None:
        tick = (now_ns - self._origin_ns) // TICK_NS
        if tick > self._wheel._now:
            for timer in self._wheel.advance(tick):
                key: Any = timer.take()
                item = self._items.pop(key)
                item.unlink()
                self._note(key, item.value, "expired")

    def _note(self, key: K, value: V, cause: Cause) -> None:
        if self._on_evict is not None:
            self._gone.append((key, value, cause))

    def _wheel_is_behind(self) -> bool:
        due = self._wheel.next_due()
        return due is not None and due <= self._wheel.now + 1

    def _drop(self, key: K, cause: Cause) -> None:
        item = self._items.pop(key)
        item.unlink()
        self._wheel.stop(item.timer)
        if self._on_evict is not None:
            self._note(key, item.value, "expired" if item.expires_ns <= self._now_ns() else cause)

    def _plan_sweep(self, timers: AbstractTimers) -> None:
        """Have the timers free what expires, when it does."""
        due = self._wheel.next_due()
        if due is None:
            return
        wait_ns = max(self._origin_ns + due * TICK_NS - self._now_ns(), 0)
        if self._sweep is None or not self._sweep.pending:
            self._sweep = timers.after(wait_ns / 1e9, self._sweep_now)
        elif (self._sweep.due_in or 0.0) * 1e9 > wait_ns:
            self._sweep.touch(wait_ns / 1e9)

    def _sweep_now(self) -> None:
        with self._lock:
            self._expire(self._now_ns())
            if self._timers is not None:
                self._plan_sweep(self._timers)
        self._tell()

    def _tell(self) -> None:
        """Call back for everything that went, outside the lock."""
        with self._lock:
            gone, self._gone = self._gone, []
        if self._on_evict is not None:
            for key, value, cause in gone:
                self._on_evict(key, value, cause)
