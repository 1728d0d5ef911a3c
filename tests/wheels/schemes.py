"""Every scheme by name, made ready to be tested through the contract."""

from typing import Any

from tests.builds import Build

SLOTS = 60

HUGE = 10**5000  # more digits than Python prints


class Unprintable:
    """An object whose repr() fails."""

    def __repr__(self) -> str:
        raise RuntimeError("no repr")


SCHEMES = {
    "UnorderedList": (),
    "OrderedList": (),
    "BinaryHeap": (),
    "BalancedTree": (),
    "SimpleWheel": (SLOTS,),
    "HashedWheel": (SLOTS,),
    "SortedHashedWheel": (SLOTS,),
    "HierarchicalWheel": ([(1, SLOTS), (60, 60), (3600, 24)],),
}

# Everything but the simple wheel takes any delay.
UNBOUNDED = [name for name in SCHEMES if name != "SimpleWheel"]


def make(build: Build, scheme: str, **options: Any) -> Any:
    """Make a wheel of a scheme from a build."""
    return getattr(build.wheels, scheme)(*SCHEMES[scheme], **options)
