"""An etcd cluster for all tests, in which each has a prefix of its own."""

from itertools import count

from tickwheel.errors import StoreUnavailable
from tickwheel.stores.contract import Store
from tickwheel.tasks.record import Task
from tickwheel.testing.etcd import EtcdCluster

__all__ = ["Prefix", "add_until_heard"]

numbers = count()


class Prefix:
    """Where a test has its keys."""

    def __init__(self, cluster: EtcdCluster) -> None:
        self.cluster = cluster
        self.name = self.fresh_name()

    @staticmethod
    def fresh_name() -> str:
        return f"test-{next(numbers)}"

    def url(self, name: str | None = None) -> str:
        return self.cluster.url(name or self.name)


async def add_until_heard(store: Store, task: Task) -> None:
    """Add a task to a cluster that may be choosing a leader, as a program would: again, until there is an answer."""
    while True:
        try:
            await store.add([task], "keep")
        except StoreUnavailable:
            continue
        return
