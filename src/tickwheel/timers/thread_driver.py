"""`Timers`: a wheel turned by a thread.

    from tickwheel import Timers

    timers = Timers()
    timers.after("30s", connection.close, key=connection.id)
    timers.touch(connection.id)                 # a packet came: wait another 30 s
    timers.every("1m", report)

The thread sleeps until something is due and is woken only for a timer that comes due earlier than that:
while nothing is pending it does not wake at all.
"""

import atexit
import concurrent.futures.thread
import logging
import threading
import time
from collections.abc import Iterable
from concurrent.futures import CancelledError, Executor, Future, ProcessPoolExecutor
from contextlib import suppress
from contextvars import Context
from functools import partial
from typing import Any, Final, Never, Self, Unpack
from weakref import WeakSet

from tickwheel.clock import Clock, SystemClock
from tickwheel.durations import DURATION_NS_MAX
from tickwheel.errors import InvalidExecutor, InvalidOption, TimersStopped
from tickwheel.timers.forks import after_fork_in_child
from tickwheel.timers.handle import PendingTimer, TimerHandle
from tickwheel.timers.registry import Left
from tickwheel.timers.timers import AbstractTimers, Named, Options, drop_pending, option_names, tell
from tickwheel.wheels import TICK_MAX

__all__ = ["Timers", "default_timers"]

# A lock cannot be waited for longer than the platform's limit; nobody notices one extra wake-up a day.
WAIT_SECONDS_MAX: Final = 86_400.0

STOP_SECONDS_MAX: Final = 5.0  # how long stop() waits for a callback that is still running

RETRY_NS: Final = 10**9  # until an executor is asked again to run what it refused

REFUSAL_MAX: Final = 2**30  # a number that a native integer of 32 bits holds

EXECUTOR_ENDED: Final = (
    "the main thread has ended, and executors accept no work after that; keep the main thread waiting, as with "
    "Thread.join(), or make Timers without an executor"
)

ERROR_PAUSE_SECONDS: Final = 0.1  # between two attempts of the thread, if every one of them fails


class Bell:
    """Wakes one thread, also one that is only about to wait: a ring that nobody waited for counts for the next wait.

    A lock that is free after a ring. Both methods are one call into the interpreter: neither an interrupt nor a
    destructor finds one half done.
    """

    def __init__(self) -> None:
        self._silent = threading.Lock()
        self._silent.acquire()

    def ring(self) -> None:
        """Wake who waits, or will."""
        with suppress(RuntimeError):  # it was rung before, and not heard yet
            self._silent.release()

    def wait(self, seconds: float | None) -> None:
        """Wait for a ring, or until the time is over."""
        self._silent.acquire(timeout=-1 if seconds is None else seconds)


class Timers(AbstractTimers):
    """Timers for any thread; callbacks run on one thread of their own, or in an executor of threads."""

    _slow_advice = "pass executor= for slow callbacks"

    def __init__(
        self, *unnamed: Never, clock: Clock | None = None, executor: Executor | None = None, **options: Unpack[Options]
    ) -> None:
        if unnamed:
            names = ", ".join(option_names(type(self)))
            raise InvalidOption("options", unnamed[0], f"given by name ({names})")
        if isinstance(executor, ProcessPoolExecutor):
            raise InvalidExecutor(executor, "they cannot be sent to another process; pass a ThreadPoolExecutor")
        if isinstance(executor, type):
            raise InvalidExecutor(executor, f"{executor.__name__} is a class; pass an instance of it")
        if executor is not None and not callable(getattr(executor, "submit", None)):
            raise InvalidExecutor(executor, "it has no submit(); pass a ThreadPoolExecutor")
        super().__init__(SystemClock() if clock is None else clock, **options)
        self._executor = executor
        if executor is not None:
            self._slow_ns = DURATION_NS_MAX  # a slow callback delays no other timer
        self._bell = Bell()  # wakes the thread; each has its own
        self._thread: threading.Thread | None = None
        self._registry.awaited = TICK_MAX  # as if it slept: the first timer starts the thread
        self._refusal = 1  # changes with every run of the executor: each timer is reported once until then
        self._reported_end = False  # whether it was reported that the executor has ended with the main thread
        self._interrupted = False  # whether an error ended the last turn
        self._forked = False
        _instances.add(self)

    def start(self) -> Self:
        """Start the thread; the first timer does so by itself. Harmless if it runs."""
        with self._registry.lock:
            if self._registry.stopped or _exited:
                raise TimersStopped
            if not self.running:
                try:
                    self._replace_thread()
                except BaseException:  # it cannot be started, or a signal came: what is pending needs one all the same
                    with suppress(Exception):
                        self._replace_thread()
                    raise
        return self

    def _replace_thread(self) -> None:
        thread = threading.Thread(target=self._turn, name="tickwheel-timers", daemon=True)
        left_behind, bell = self._bell, Bell()
        self._registry.awaited = TICK_MAX  # whatever interrupts this, the next timer tries again
        try:
            self._bell = bell
            self._thread = thread  # first: a thread that is not this one does not turn the wheel
            # An interrupt makes Python take a thread for dead that lives: it sees now that it is not this one.
            left_behind.ring()
            thread.start()
        except BaseException:  # a signal handler may have started another
            self._registry.awaited = TICK_MAX
            self._thread = None
            raise
        self._registry.awaited = 0

    @property
    def running(self) -> bool:
        """Whether the thread turns the wheel."""
        return self._thread is not None and self._thread.is_alive()

    def stop(self) -> list[PendingTimer]:
        """Stop for good and hand back what was pending, by due time.

        Every timer that has not begun is handed back, also one that waits in the executor, and does not begin any more.
        One that has begun is not handed back and finishes: on the thread before this returns, unless it takes more than
        5 seconds from here, in the executor perhaps after, for the executor to wait for.
        """
        return super().stop()

    def _end_driver(self) -> None:
        self._end_thread()
        self._join_thread(STOP_SECONDS_MAX)

    def _end_thread(self) -> None:
        """Have the thread see that it is to stop."""
        with self._registry.lock:
            self._registry.stopped = True
        self._bell.ring()

    def _join_thread(self, seconds: float) -> None:
        """Wait for a callback that runs on the thread."""
        thread = self._thread
        if self._registry.lock._is_owned():
            return  # stopped by the code of a key, under the lock that the thread needs to end
        if thread is not None and thread.is_alive() and thread is not threading.current_thread():
            thread.join(seconds)
            if thread.is_alive():
                tell(logging.WARNING, "a timer callback is still running %.0f s after stop()", STOP_SECONDS_MAX)

    def __enter__(self) -> Self:
        return self.start()

    # -- the thread

    def _turn(self) -> None:
        try:
            while self._turning:
                try:
                    while self._turning:
                        self._turn_or_recover()
                except BaseException:  # noqa: BLE001, S112 - raised into this thread while it recovered
                    continue
        finally:  # whatever ended it, the next timer starts another thread
            with self._registry.lock:
                if self._turning:
                    self._registry.awaited = TICK_MAX
                    self._thread = None

    @property
    def _turning(self) -> bool:
        """Whether the current thread is the one that turns the wheel: one left behind by a fork or a signal is not."""
        return self._thread is threading.current_thread() and not self._registry.stopped

    def _turn_or_recover(self) -> None:
        try:
            self._turn_once()
        except BaseException as error:  # noqa: BLE001 - raised into this thread, or by the clock: timers go on
            self._interrupted = True
            tell(logging.ERROR, "the timer thread failed and continues", error=error)
            time.sleep(ERROR_PAUSE_SECONDS)

    def _turn_once(self) -> None:
        """Run one batch of what is due, or sleep until something is."""
        due = self._registry.collect()
        if self._executor is None:
            self._run_due()
        else:
            if self._interrupted:  # the last batch was perhaps not submitted to its end
                self._interrupted = False
                due = self._registry.list_due()
            for handle in due:
                self._submit(handle, self._executor)
        if not self._registry.caught_up:
            time.sleep(0)  # gives other threads the interpreter, and so the lock, between two batches
        elif not due:
            self._sleep()

    def _run_due(self) -> None:
        while self._turning and self._registry.run_next(self._call_back):
            pass

    def _sleep(self) -> None:
        registry = self._registry
        try:
            with registry.lock:
                if not self._turning:  # nobody would wake it, and another thread says until when it sleeps
                    return
                bell = self._bell
                wait_ns = registry.prepare_sleep()
            if wait_ns != 0:
                bell.wait(None if wait_ns is None else min(wait_ns / 1e9, WAIT_SECONDS_MAX))
        finally:
            with registry.lock:  # under which another thread takes the place of this one, and says when it sleeps
                if self._turning:
                    registry.awaited = 0

    def _wake(self) -> None:
        with self._registry.lock:
            if not self.running and not self._registry.stopped:
                self.start()  # it looks at the wheel first
                return
        self._bell.ring()

    def _contains(self, error: BaseException) -> bool:
        """Contain every error: a thread has no caller, and sys.exit() in a callback must not end all timers."""
        return error is not None

    # -- the executor

    def _submit(self, handle: TimerHandle, executor: Executor) -> None:
        if not self._registry.enter_executor(handle):
            return
        try:
            if self._forked:
                check_threads(executor)
            future: Any = executor.submit(self._run_submitted, handle)
        except BaseException as error:  # noqa: BLE001 - it was shut down, cannot start a thread, or was left behind
            self._put_off(handle, error)
            return
        with suppress(BaseException):  # nobody tells how the run ends then, but the executor has taken it
            future.add_done_callback(partial(self._settle, handle))

    def _run_submitted(self, handle: TimerHandle) -> None:
        self._registry.leave_executor(handle)
        self._refusal = self._refusal % REFUSAL_MAX + 1
        self._registry.run(handle, self._call_back)

    def _settle(self, handle: TimerHandle, future: "Future[None]") -> None:
        """Report a callback that the executor gave up without running it."""
        error = CancelledError() if future.cancelled() else future.exception()
        if error is not None:
            self._put_off(handle, error)

    def _put_off(self, handle: TimerHandle, error: BaseException) -> None:
        """Try a run again later that the executor did not make, and tell so the first time."""
        self._registry.leave_executor(handle)
        named = handle.callback, handle.key
        wait_ns = int(RETRY_NS * self.speed)
        if handle.times != 1:
            wait_ns = min(wait_ns, handle._delay_ns)  # a periodic timer is tried no less often than it would run
        if not self._registry.put_off(handle, wait_ns):
            return
        if has_main_ended():
            self._report_end(handle, named, error)
        elif handle._refusal != self._refusal:
            handle._refusal = self._refusal
            self._report(handle, named, error, "the executor did not run timer callback %s; it is tried again")

    def _report_end(self, handle: TimerHandle, named: Named, error: BaseException) -> None:
        """Report once that no callback runs any more, if the process lives on without its main thread."""
        if not self._reported_end and has_work_left():
            self._reported_end = True
            ended = InvalidExecutor(self._executor, EXECUTOR_ENDED)
            ended.__cause__ = error
            self._report(handle, named, ended, "the executor did not run timer callback %s, and runs no others")

    # -- a forked child has the timers but not the thread

    def _begin_anew(self) -> Left:
        """Begin anew in a forked child, with a new thread when one is needed.

        The thread itself, if a callback forked, goes on in the child: when the callback returns, it ends.
        """
        self._forked = True
        self._registry.awaited = TICK_MAX
        self._bell = Bell()
        self._thread = None
        return super()._begin_anew()


def has_main_ended() -> bool:
    """Tell whether the main thread has ended: Python shuts executors down then, and waits for other threads."""
    return bool(getattr(threading, "_SHUTTING_DOWN", False)) or not threading.main_thread().is_alive()


def has_work_left() -> bool:
    """Tell whether the interpreter waits for a thread that is none of an executor's, and so does not simply exit."""
    pooled = getattr(concurrent.futures.thread, "_threads_queues", ())
    return any(
        not thread.daemon
        and thread is not threading.main_thread()
        and thread not in pooled
        and not type(thread).__module__.startswith("concurrent.futures.")
        for thread in threading.enumerate()
    )


def check_threads(executor: Executor) -> None:
    """Refuse an executor whose threads are another process's: it would wait for them for ever."""
    threads: Iterable[threading.Thread] = getattr(executor, "_threads", ())
    if any(not thread.is_alive() for thread in threads):
        raise InvalidExecutor(executor, "its threads did not survive the fork; in a child, make Timers with a new one")


_instances: "WeakSet[Timers]" = WeakSet()
_default: Timers | None = None
_exited = False  # whether the interpreter ends, and the threads were stopped
_default_lock = threading.RLock()  # a destructor or a signal handler may ask on the thread that holds it


def default_timers() -> Timers:
    """Return the timers that everything in this process may share."""
    global _default  # noqa: PLW0603 - one a process, made when first asked for
    with _default_lock:
        while _default is None or _default._registry.stopped:
            made = Context().run(Timers)  # not in that of the first one who asks
            if _default is None or _default._registry.stopped:  # otherwise they were made meanwhile, on this thread
                _default = made
        return _default


def _end_threads() -> None:
    # What is pending need not be handed back: the process ends.
    global _exited  # noqa: PLW0603 - a thread that is started from now on, by a destructor say, would never end
    _exited = True
    instances = list(_instances)
    for timers in instances:
        timers._end_thread()
    end = time.monotonic() + STOP_SECONDS_MAX
    for timers in instances:
        timers._join_thread(max(end - time.monotonic(), 0.0))
    drop_pending(instances)  # also of those that only their thread has held


def _renew_default_lock() -> None:
    global _default_lock  # noqa: PLW0603 - another thread of the parent may have held it
    _default_lock = threading.RLock()


atexit.register(_end_threads)
after_fork_in_child(_renew_default_lock)
