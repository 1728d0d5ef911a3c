"""A Redis server for all tests, or a cluster, on which each has a store of its own."""

from itertools import count

__all__ = ["Redis"]

numbers = count()


class Redis:
    """Where a test has its keys."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.name = self.fresh_name()

    @staticmethod
    def fresh_name() -> str:
        return f"test-{next(numbers)}"

    def url(self, name: str | None = None) -> str:
        return f"{self._url}?name={name or self.name}"
