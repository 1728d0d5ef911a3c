"""A store in an etcd cluster: for small sets of tasks that must not be lost; see store.py."""

from tickwheel.stores.etcd.store import EtcdStore

__all__ = ["EtcdStore"]
