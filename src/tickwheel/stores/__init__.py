"""Where durable tasks are kept."""

from tickwheel.stores.contract import Due, Filter, Finish, Lease, Page, Store

__all__ = ["Due", "Filter", "Finish", "Lease", "Page", "Store"]
