"""Who owns what, among the nodes that share a store: fair shares, held by leases."""

from tickwheel.cluster.ownership import Ownership
from tickwheel.cluster.store_clock import StoreClock

__all__ = ["Ownership", "StoreClock"]
