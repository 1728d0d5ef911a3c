"""What happens, told as it happens: server-sent events that go on where they were broken off.

    scheduler --> ring of the last some thousand --> a queue for each listener --> GET /v1/events

An event has a number, greater than any before it, also across restarts. A listener that comes back says which it had
last, and is told what it missed; if that is too long ago it is told `reset`, and should look at everything again. A
listener that does not keep up is let go, and comes back; one that does not even read that is broken off.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from typing import Any, Final

import msgspec

from tickwheel.observe.events import Event
from tickwheel.server.moments import moment, seconds

__all__ = ["EventStream", "TooManyListeners"]

WAITING_MAX: Final = 1_024  # events that a listener may be behind
SILENCE_S: Final = 15.0  # after which something is said, so that the connection is not taken for dead
RETRY_MS: Final = 1_000  # after which a browser comes back
PARTING_S: Final = 1.0  # for one who was let go to read what waits for it

Frame = tuple[int, Event]


class TooManyListeners(Exception):
    """As many listen as may."""


class Listener:
    """One who listens."""

    def __init__(self) -> None:
        self.waiting: deque[Frame] = deque()
        self.woken = asyncio.Event()
        self._gone = asyncio.Event()

    @property
    def gone(self) -> bool:
        """Whether it was let go."""
        return self._gone.is_set()

    def tell(self, frame: Frame) -> bool:
        """Give it an event; False if it has too many already."""
        if len(self.waiting) >= WAITING_MAX:
            return False
        self.waiting.append(frame)
        self.woken.set()
        return True

    def release_all(self) -> None:
        """End it after what waits for it."""
        self._gone.set()
        self.woken.set()

    async def parted(self) -> None:
        """Wait until it was let go, and has had time to read the rest."""
        await self._gone.wait()
        await asyncio.sleep(PARTING_S)


class EventStream:
    """Everyone who listens, and what was told last."""

    def __init__(self, first: int, kept: int, listeners_max: int) -> None:
        self._last = first
        self._ring: deque[Frame] = deque(maxlen=kept)
        self._listeners: set[Listener] = set()
        self._listeners_max = listeners_max
        self._closed = False

    def __len__(self) -> int:
        return len(self._listeners)

    def hear(self, event: Event) -> None:
        """Take in an event, on the loop."""
        self._last += 1
        frame = (self._last, event)
        self._ring.append(frame)
        for listener in list(self._listeners):
            if not listener.tell(frame):
                self._listeners.discard(listener)
                listener.release_all()

    def open(self) -> None:
        """Let listeners come, also after it was closed."""
        self._closed = False

    def close(self) -> None:
        """End all streams."""
        self._closed = True
        for listener in self._listeners:
            listener.release_all()

    def listen(self, last_id: str | None) -> tuple[Listener, AsyncGenerator[bytes, None]]:
        """Listen from when it is first read, after an event that was had already; raise if too many do."""
        if self._full:
            raise TooManyListeners
        listener = Listener()
        return listener, self._frames(listener, last_id)

    @property
    def _full(self) -> bool:
        return len(self._listeners) >= self._listeners_max

    def _missed(self, last_id: str | None) -> list[bytes]:
        """Return what a listener did not hear since its last event."""
        if not last_id:
            return []
        first = self._ring[0][0] if self._ring else self._last + 1
        known = last_id.isascii() and last_id.isdigit() and first - 1 <= int(last_id[:20]) <= self._last
        if not known:
            return [b"id: %d\nevent: reset\ndata: {}\n\n" % self._last]
        return [written(frame) for frame in self._ring if frame[0] > int(last_id)]

    async def _frames(self, listener: Listener, last_id: str | None) -> AsyncGenerator[bytes, None]:
        missed = self._missed(last_id)
        if self._closed or self._full:
            return
        self._listeners.add(listener)
        try:
            yield b"retry: %d\n: listening\n\n" % RETRY_MS
            for frame in missed:
                yield frame
            while listener.waiting or not listener.gone:
                while listener.waiting:
                    yield written(listener.waiting.popleft())
                if listener.gone:
                    break
                listener.woken.clear()
                try:
                    async with asyncio.timeout(SILENCE_S):
                        await listener.woken.wait()
                except TimeoutError:
                    yield b": still here\n\n"
        finally:
            self._listeners.discard(listener)


def written(frame: Frame) -> bytes:
    """Write an event as it is sent."""
    number, event = frame
    body: dict[str, Any] = {
        "kind": event.kind,
        "task_id": event.task_id,
        "name": event.handler,
        "at": moment(event.at),
        "attempt": event.attempt,
        "late": None if event.late_ms is None else seconds(event.late_ms),
        "took": None if event.took_ms is None else seconds(event.took_ms),
        "reason": event.reason,
    }
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (number, event.kind.encode(), msgspec.json.encode(body))
