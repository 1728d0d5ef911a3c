"""`IdleTimeouts`: notice what has been idle for too long, at a price paid once a timeout and not once a packet.

    timeouts: IdleTimeouts[Connection] = IdleTimeouts(Timers())
    timeouts.watch(connection, "30s", Connection.close)
    timeouts.touch(connection)                  # on every packet: one clock reading, one look into a dict

Touching does not move the timer. When it comes due it looks at the time of the last touch, and waits for what
is left:

    watched 0 s        touched 20 s      due 30 s, idle for 10 s: wait 20 s more      due 50 s, idle for 30 s: call back

It is a periodic timer, which is not over while it looks: other timers cannot take its place meanwhile, also if there
are as many as there may be. If the code of a key fails, that is reported, and the timer looks again.
"""

from collections.abc import Callable, Hashable
from inspect import CO_COROUTINE
from threading import RLock
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar, TypeVarTuple, Unpack, overload
from weakref import WeakSet, ref

from tickwheel.durations import Duration, argument_ns
from tickwheel.errors import AsyncCallback, DuplicateKey, InvalidTimers, MissingCallback, NotCopyable, TimersStopped
from tickwheel.recipes.idle_touches import IdleTouches, Touch
from tickwheel.timers.asyncio_driver import AsyncTimers
from tickwheel.timers.forks import after_fork_in_child
from tickwheel.timers.handle import Details, TimerHandle, describe
from tickwheel.timers.timers import AbstractTimers, code_flags

__all__ = ["IdleTimeouts"]

K = TypeVar("K", bound=Hashable)
A = TypeVar("A")
Rest = TypeVarTuple("Rest")


class Watch:
    """One key that is watched: what its timer calls, and so what messages about that name."""

    __slots__ = ("args", "handle", "key", "on_idle", "timeout_ns", "touch")

    def __init__(self, key: Any, timeout_ns: int, on_idle: Callable[..., object], args: Any, touch: Touch) -> None:
        self.key = key
        self.timeout_ns = timeout_ns
        self.on_idle = on_idle
        self.args = args
        self.touch = touch
        self.handle: TimerHandle | None = None  # it has one before its timer starts

    def __call__(self, pending: "Pending") -> object:
        return None if pending.timeouts is None else pending.timeouts._look(self)

    def __repr__(self) -> str:
        return describe(self.on_idle, self.key)


class Pending:
    """An argument of the timers of all watches, which nobody else holds: it is dropped when the timers are stopped."""

    timeouts: "IdleTimeouts[Any] | None" = None  # if an interrupt comes when it is made

    def __init__(self, timeouts: "IdleTimeouts[Any]") -> None:
        self.timeouts = timeouts

    def __del__(self) -> None:
        if self.timeouts is not None:
            self.timeouts._forget_stopped()


class IdleTimeouts(IdleTouches, Generic[K]):
    """Watches keys by any set of timers; every method may be called from the threads that the timers allow.

    A key that is found idle is not watched any more when its callback is called, which may watch it again. What a
    callback raises goes where the errors of other timers go. Once the timers are stopped, nothing is watched any more.
    A forked child watches nothing at first: it has none of its parent's timers.
    """

    def __init__(self, timers: AbstractTimers) -> None:
        if not isinstance(timers, AbstractTimers):
            raise InvalidTimers(timers)
        super().__init__(timers._registry)
        self._timers = timers  # the registry knows them only weakly
        self._awaits = isinstance(timers, AsyncTimers)
        self._watches: dict[K, Watch] = {}
        self._pending: ref[Pending] | None = None
        self._lock = RLock()  # a finalizer may call us on the thread that holds it
        _all.add(self)

    if TYPE_CHECKING:  # what IdleTouches has without types

        def touch(self, key: K) -> bool: ...  # noqa: D102 - as there
        def idle_for(self, key: K) -> float | None: ...  # noqa: D102 - as there

    @overload
    def watch(self, key: K, timeout: Duration, on_idle: Callable[[K], object]) -> None: ...
    @overload
    def watch(
        self,
        key: K,
        timeout: Duration,
        on_idle: Callable[[A, Unpack[Rest]], object],
        arg: A,
        /,
        *args: *Rest,
    ) -> None: ...
    def watch(self, key: K, timeout: Duration, on_idle: Callable[..., object], *args: object) -> None:
        """Call back, once, when a key has not been touched for a timeout: with the key, or with the arguments given.

        A key that is watched already is refused with `DuplicateKey`.
        """
        if not callable(on_idle):
            raise MissingCallback(on_idle, "on_idle")
        if not self._awaits and code_flags(on_idle) & CO_COROUTINE:
            raise AsyncCallback("on_idle", on_idle, "use AsyncTimers, or a plain function")
        timeout_ns = argument_ns("timeout", timeout)
        watch = Watch(key, timeout_ns, on_idle, args or (key,), Touch(self._time.now_ns()))
        with self._lock:
            if self._registry.stopped:
                raise TimersStopped
            if key in self._watches:
                raise DuplicateKey(key, watched=True)
            try:
                self._start(watch)  # first: whatever is watched has a timer, and one that is not watched ends itself
                self._register(watch)
            except BaseException:
                if self._watches.get(key) is watch:
                    self._drop(watch)
                if watch.handle is not None:
                    watch.handle.cancel()
                    watch.handle.release()
                raise

    def _start(self, watch: Watch) -> None:
        """Start the timer of a watch, which holds its handle before: no timer runs that cannot be cancelled."""
        interval_ns = max(watch.timeout_ns, 1)
        details = Details(None, None, -1, True)  # noqa: FBT003 - a native call: for ever, each after the run before
        handle = TimerHandle(self._registry, watch, (self._shared_pending(),), interval_ns, details)
        watch.handle = handle
        self._registry.enter(handle, self._time.now_ns() + interval_ns, False)  # noqa: FBT003 - as above

    def _register(self, watch: Watch) -> None:
        if self._watches.setdefault(watch.key, watch) is not watch:  # the code of the key has watched it meanwhile
            raise DuplicateKey(watch.key, watched=True)
        self._touches[watch.key] = watch.touch

    def forget(self, key: K) -> bool:
        """Watch a key no longer; False if it was not watched."""
        with self._lock:
            watch = self._watches.get(key)
            if watch is None or self._registry.stopped:
                return False
            self._drop(watch)
        if watch.handle is not None:
            watch.handle.cancel()
        return True

    def __len__(self) -> int:
        return 0 if self._registry.stopped else len(self._watches)

    def __contains__(self, key: object) -> bool:
        return not self._registry.stopped and key in self._watches

    def __repr__(self) -> str:
        return f"<{type(self).__name__} watched={len(self)}>"

    def __reduce__(self) -> NoReturn:
        raise NotCopyable(self, "make another one instead")

    def _look(self, watch: Watch) -> object:
        """Call back for a key that is idle, or have its timer wait for what is left."""
        with self._lock:
            handle = watch.handle
            assert handle is not None
            if self._watches.get(watch.key) is not watch:
                handle.cancel()  # forgotten while its timer came due, or `watch` or `forget` was interrupted
                return None
            left_ns = self._end_if_idle(watch.touch, watch.timeout_ns)
            if left_ns > 0:
                self._registry.touch(handle, left_ns)
                return None
            self._drop(watch)
        handle.cancel()
        return watch.on_idle(*watch.args)  # AsyncTimers awaits a coroutine

    def _drop(self, watch: Watch) -> None:
        self._touches.pop(watch.key, None)
        self._watches.pop(watch.key, None)  # last: if this fails, the next look finds it again

    def _shared_pending(self) -> Pending:
        shared = None if self._pending is None else self._pending()
        if shared is None:
            shared = Pending(self)
            self._pending = ref(shared)
        return shared

    def _forget_stopped(self) -> None:
        """Drop everything if the timers were stopped. Without the lock: any thread may be the one to find out."""
        if self._registry.stopped:
            self._watches.clear()
            self._touches.clear()

    def _renew_locks(self) -> None:
        """Take new locks: in a forked child a thread that does not exist may hold the old ones."""
        self._lock = RLock()
        self._touch_lock = RLock()

    def _begin_anew(self) -> object:
        """Watch nothing in a forked child, and return what was watched."""
        left = self._watches, self._touches
        self._watches, self._touches = {}, {}
        return left


_all: WeakSet[IdleTimeouts[Any]] = WeakSet()


def _renew_locks() -> None:
    for timeouts in list(_all):
        timeouts._renew_locks()


def _begin_anew() -> Callable[[], None]:
    return [timeouts._begin_anew() for timeouts in list(_all)].clear


after_fork_in_child(_renew_locks, _begin_anew)
