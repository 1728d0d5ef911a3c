"""Who owns what, among the nodes that share a store: fair shares, held by leases."""

from tickwheel.cluster.holdings import Holdings

__all__ = ["Holdings"]
