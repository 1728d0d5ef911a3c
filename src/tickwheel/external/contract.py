"""What another scheduler has to do to look after far tasks: remember to call, and go on calling until it was heard.

    add --> store --> schedule --> paused --> the moment comes: it calls --> pending --> the wheel
            (truth)   (far)        (store)                                  (store)

The task itself never leaves tickwheel's store. What the other scheduler has is the duty to call in time, and it has it
before the task is paused: whoever dies in between, the task is pending, or there is someone who will call.
"""

from typing import Protocol

__all__ = ["FarScheduler"]


class FarScheduler(Protocol):
    """Another scheduler, as a `HybridScheduler` sees it."""

    async def schedule(self, task_id: str, at: int) -> None:
        """Remember durably to call at a moment, milliseconds since 1970; said again, the new moment counts.

        To call is to resume the task in tickwheel's store, if it still has the tag `far`, and to take that away. It
        calls again if that failed, or if it died meanwhile.
        """

    async def cancel(self, task_id: str) -> None:
        """Forget to call; harmless if there is nothing to forget."""
