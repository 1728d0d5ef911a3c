"""How long nodes without a lock, and their leases, go without being renewed: by a clock that nobody can set.

    owner       renews: the stamp of a row grows              renews             dies
    row         41                                            42                 42
    observer    sees 41: it has the ttl from now on           sees 42: again     still 42 after the ttl: it is over

A stamp is compared, and never read as a time: the wall clock may be set in between. The ttl is counted from when this
process first saw the stamp, on its own clock, which goes on while the machine is suspended. That is after the owner
wrote it, and so nobody takes over before the owner has stopped by its own clock. A process that has just opened the
file has seen nothing yet: to it, whatever is written there is alive for a ttl.
"""

import threading
from collections.abc import Callable, Collection
from typing import Final

__all__ = ["FOREVER", "Renewals"]

FOREVER: Final = 2**62  # in place of a stamp: held until it is released or its node dies


class Renewals:
    """The stamps that one process has seen, and until when each is good; safe from any thread."""

    def __init__(self, boottime_ns: Callable[[], int]) -> None:
        self._boottime_ns = boottime_ns
        self._lock = threading.Lock()
        self._seen: dict[int | str, tuple[tuple[int, int], int]] = {}  # by partition or node: epoch, stamp; until when

    def left_ms(self, key: int | str, epoch: int, stamp: int, ttl_ms: int) -> int:
        """Return how long a partition is held, or a node alive, given what its row says; 0 if it is over.

        A node has no epoch: give 0.
        """
        with self._lock:
            now_ns = self._boottime_ns()
            seen, until_ns = self._seen.get(key, (None, 0))
            if seen != (epoch, stamp):
                until_ns = now_ns + ttl_ms * 1_000_000
                self._seen[key] = (epoch, stamp), until_ns
        return max(-(-(until_ns - now_ns) // 1_000_000), 0)  # rounded up

    def is_held(self, partition: int, epoch: int, stamp: int, ttl_ms: int) -> bool:
        """Tell whether a lease is held; of one that is not timed, that is for as long as its node is alive."""
        return stamp >= FOREVER or (stamp > 0 and self.left_ms(partition, epoch, stamp, ttl_ms) > 0)

    def forget_all_but(self, nodes: Collection[str]) -> None:
        """Forget nodes that are not in the file any more."""
        with self._lock:
            self._seen = {key: seen for key, seen in self._seen.items() if isinstance(key, int) or key in nodes}
