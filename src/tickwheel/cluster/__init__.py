"""Who owns what, among the nodes that share a store: fair shares, held by leases.

    nodes that live ---> assignment ---> ownership: give back what is too much, take what is free, renew the rest
                         fair shares     every round, and at once when a node comes or goes

    store_clock    the store's clock as this node knows it, whatever its own clock says

A lease says who may claim; the epoch that it carries, which writes are accepted.
"""

from tickwheel.cluster.ownership import Ownership
from tickwheel.cluster.store_clock import StoreClock

__all__ = ["Ownership", "StoreClock"]
