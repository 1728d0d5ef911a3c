"""A store that fails once: before a call does anything, or after it did, so that only the answer is lost."""

from typing import Any, Final

from tickwheel.errors import StoreUnavailable
from tickwheel.stores import Store

__all__ = ["NOT_AWAITED", "FlakyStore"]

# What a store tells at once, and what is no call of its data.
NOT_AWAITED: Final = (
    "partitions",
    "timed_leases",
    "finish_by_epoch",
    "keeps_skipped",
    "local_clock",
    "changes",
    "running_changes",
    "close",
)


class FlakyStore:
    """Any store, but its call number `fail_at` raises."""

    def __init__(self, store: Store, fail_at: int, *, after: bool) -> None:
        self._store = store
        self._fail_at = fail_at
        self._after = after
        self.calls = 0
        self.failed: str | None = None

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if name in NOT_AWAITED:
            return found

        async def call(*args: Any, **kwargs: Any) -> Any:
            self.calls += 1
            fails = self.calls == self._fail_at
            if fails:
                self.failed = name
            if fails and not self._after:
                raise StoreUnavailable(f"{name} was not reached")
            answer = await found(*args, **kwargs)
            if fails:
                raise StoreUnavailable(f"the answer of {name} was lost")
            return answer

        return call
