"""Who owns what, among the nodes that share a store: fair shares, held by leases."""

from tickwheel.cluster.holdings import Holdings
from tickwheel.cluster.store_clock import StoreClock

__all__ = ["Holdings", "StoreClock"]
