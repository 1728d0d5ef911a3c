"""A store with threads of its own for programs on virtual time, which stands still while it works."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

from tickwheel.stores.contract import Change
from tickwheel.stores.sqlite import SqliteStore

__all__ = ["StillStore"]


class StillStore:
    """An SQLite store on an event loop of its own: who calls it waits for the answer without letting time pass."""

    tells = False  # of changes

    def __init__(self, path: Path, now_ms: Callable[[], int], **options: Any) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._store: SqliteStore = self._wait(SqliteStore.open(path, now_ms=now_ms, **options))
        self.partitions = self._store.partitions

    def _wait(self, call: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(call, self._loop).result()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)

        async def call(*args: Any, **kwargs: Any) -> Any:
            return self._wait(found(*args, **kwargs))

        return call

    async def changes(self, _: object) -> AsyncIterator[dict[int, Change]]:
        """Tell nothing: a hint may be lost."""
        await asyncio.Event().wait()
        yield {}

    def running_changes(self) -> dict[int, int]:
        """Count nothing: nothing is told."""
        return {}

    def end(self) -> None:
        """Close it, and end its thread."""
        self._wait(self._store.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
