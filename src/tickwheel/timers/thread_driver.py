"""`Timers`: a wheel turned by a thread of its own.

    from tickwheel import Timers

    timers = Timers()
    timers.after("30s", connection.close, key=connection.id)
    timers.touch(connection.id)                 # a packet came: wait another 30 s
    timers.every("1m", report)

The thread sleeps until something is due and is woken only for a timer that comes due earlier than that:
while nothing is pending it does not wake at all.
"""

import atexit
import os
import threading
from concurrent.futures import Executor
from typing import Final, Self, Unpack
from weakref import WeakSet

from tickwheel.clock import Clock, SystemClock
from tickwheel.errors import TimersStopped
from tickwheel.timers.handle import TimerHandle
from tickwheel.timers.registry import TimerRegistry
from tickwheel.timers.timers import AbstractTimers, Options, log
from tickwheel.wheels import TICK_MAX

__all__ = ["Timers", "default_timers"]

# A condition cannot wait longer than the platform's limit; nobody notices one extra wake-up a day.
WAIT_SECONDS_MAX: Final = 86_400.0

STOP_SECONDS_MAX: Final = 5.0  # how long stop() waits for a callback that is still running


class Timers(AbstractTimers):
    """Timers for any thread; callbacks run on the wheel's thread, or in an executor."""

    def __init__(
        self, *, clock: Clock | None = None, executor: Executor | None = None, **options: Unpack[Options]
    ) -> None:
        super().__init__(clock or SystemClock(), **options)
        self._executor = executor
        self._condition = threading.Condition(self._registry.lock)
        self._thread: threading.Thread | None = None
        self._registry.awaited = TICK_MAX  # as if it slept: the first timer starts the thread
        _instances.add(self)

    def start(self) -> Self:
        """Start the thread; the first timer does so by itself. Harmless if it runs."""
        with self._registry.lock:
            if self._registry.stopped:
                raise TimersStopped
            if not self.running:
                self._thread = threading.Thread(target=self._turn, name="tickwheel-timers", daemon=True)
                self._registry.awaited = 0
                self._thread.start()
        return self

    @property
    def running(self) -> bool:
        """Whether the thread turns the wheel."""
        return self._thread is not None and self._thread.is_alive()

    def stop(self) -> list[TimerHandle]:
        """Stop for good and hand back what was pending, by due time; a callback that runs is waited for."""
        with self._registry.lock:
            left = self._registry.close()
            self._condition.notify_all()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(STOP_SECONDS_MAX)
            if thread.is_alive():
                log.warning("a callback is still running %.0f s after stop()", STOP_SECONDS_MAX)
        return left

    def __enter__(self) -> Self:
        return self.start()

    # -- the thread

    def _turn(self) -> None:
        registry = self._registry
        while not registry.stopped:
            due = registry.collect()
            for handle in due:
                self._dispatch(handle)
            if not due:
                self._sleep(registry)

    def _sleep(self, registry: TimerRegistry) -> None:
        with self._condition:
            wait_ns = registry.wait_ns()
            if registry.stopped or wait_ns == 0:
                return
            registry.awaited = TICK_MAX if wait_ns is None else registry.wheel.next_due() or TICK_MAX
            self._condition.wait(None if wait_ns is None else min(wait_ns / 1e9, WAIT_SECONDS_MAX))
            registry.awaited = 0

    def _wake(self) -> None:
        if self._thread is None:
            self.start()
        self._condition.notify_all()

    def _dispatch(self, handle: TimerHandle) -> None:
        if self._executor is None:
            self._run(handle)
            return
        try:
            self._executor.submit(self._run, handle)
        except RuntimeError as error:  # it was shut down
            self._report(handle, error)

    # -- a forked child has the timers but not the thread

    def _forget_parent(self) -> None:
        """Begin anew in a forked child: the parent's timers are the parent's to run."""
        self._registry.renew_lock()
        self._registry.renew_wheel()
        self._registry.awaited = TICK_MAX
        self._condition = threading.Condition(self._registry.lock)
        self._thread = None


_instances: "WeakSet[Timers]" = WeakSet()
_default: Timers | None = None
_default_lock = threading.Lock()


def default_timers() -> Timers:
    """Return the timers that everyone in this process may share."""
    global _default  # noqa: PLW0603 - one a process, made when first asked for
    with _default_lock:
        if _default is None or _default._registry.stopped:
            _default = Timers()
        return _default


def _stop_all() -> None:
    for timers in list(_instances):
        timers.stop()


def _after_fork() -> None:
    global _default_lock  # noqa: PLW0603 - another thread of the parent may have held it
    _default_lock = threading.Lock()
    for timers in list(_instances):
        timers._forget_parent()


atexit.register(_stop_all)
os.register_at_fork(after_in_child=_after_fork)
