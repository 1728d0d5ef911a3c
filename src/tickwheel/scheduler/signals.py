"""SIGTERM and SIGINT as a request to stop, for as long as a scheduler runs in the foreground.

    with StopSignals(on_signal):        # on the main thread; on any other, signals stay as they are
        ...                             # on_signal() is called for each signal that arrives
                                        # here the former handlers are back

`on_signal` is called between any two instructions of the main thread: it must not take a lock that the main thread
may hold. The system may deliver a signal to any thread: a main thread that waits in a system call goes on waiting then.
One that waits to read from a pipe gives it as `wakeup_fd`, and reads the number of each signal.
"""

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, Final, Self

__all__ = ["StopSignals"]

NUMBERS: Final = (signal.SIGINT, signal.SIGTERM)


class StopSignals:
    """Calls back for each signal to stop."""

    def __init__(self, on_signal: Callable[[], object], wakeup_fd: int | None = None) -> None:
        self._on_signal = on_signal
        self._wakeup_fd = wakeup_fd
        self._former_fd: int | None = None
        self._former: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in NUMBERS:
                self._former[number] = signal.signal(number, self._receive)
            if self._wakeup_fd is not None:
                os.set_blocking(self._wakeup_fd, False)
                self._former_fd = signal.set_wakeup_fd(self._wakeup_fd, warn_on_full_buffer=False)
        return self

    def __exit__(self, *_: object) -> None:
        if self._former_fd is not None:
            signal.set_wakeup_fd(self._former_fd)
            self._former_fd = None
        self.restore()

    def restore(self) -> None:
        """Let the former handlers have the signals again."""
        while self._former:
            number, handler = self._former.popitem()
            # None: it was not set by Python, and cannot be set again from here.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def _receive(self, _number: int, _frame: FrameType | None) -> None:
        self._on_signal()
