"""An etcd cluster for all tests, in which each has a prefix of its own."""

from itertools import count

from tickwheel.testing.etcd import EtcdCluster

__all__ = ["Prefix"]

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
