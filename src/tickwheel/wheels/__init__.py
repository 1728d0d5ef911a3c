"""Timer schemes: every classic way to keep timers, behind one contract, counted in whole ticks.

| scheme              | start            | stop     | tick, amortized | use it for                         |
|---------------------|------------------|----------|-----------------|------------------------------------|
| `HierarchicalWheel` | O(levels)        | O(1)     | O(1)            | everything: this is the one to use |
| `HashedWheel`       | O(1)             | O(1)     | O(n / slots)    | alike delays in one dial           |
| `SortedHashedWheel` | O(n / slots)     | O(1)     | O(1)            | to compare                         |
| `SimpleWheel`       | O(1)             | O(1)     | O(1)            | delays no longer than one turn     |
| `BinaryHeap`        | O(log n)         | O(log n) | O(log n)        | to compare: what asyncio has       |
| `BalancedTree`      | O(log n)         | O(1)     | O(log n)        | to compare                         |
| `OrderedList`       | O(n)             | O(1)     | O(1)            | to compare                         |
| `UnorderedList`     | O(1)             | O(1)     | O(n)            | to compare, and as the oracle      |

`python -m tickwheel.wheels` shows one turning in the terminal.
"""

from tickwheel.wheels.balanced_tree import BalancedTree
from tickwheel.wheels.binary_heap import BinaryHeap
from tickwheel.wheels.contract import Stats, Wheel
from tickwheel.wheels.geometry import BINARY, CENTURY, CLOCK, DEFAULT, GAME, ORDER, Dial, Geometry
from tickwheel.wheels.hashed_wheel import HashedWheel
from tickwheel.wheels.hierarchical_wheel import HierarchicalWheel
from tickwheel.wheels.ordered_list import OrderedList
from tickwheel.wheels.simple_wheel import SimpleWheel
from tickwheel.wheels.sorted_hashed_wheel import SortedHashedWheel
from tickwheel.wheels.timer import TICK_MAX, Slot, Timer
from tickwheel.wheels.unordered_list import UnorderedList

__all__ = [
    "BINARY",
    "CENTURY",
    "CLOCK",
    "DEFAULT",
    "GAME",
    "ORDER",
    "TICK_MAX",
    "BalancedTree",
    "BinaryHeap",
    "Dial",
    "Geometry",
    "HashedWheel",
    "HierarchicalWheel",
    "OrderedList",
    "SimpleWheel",
    "Slot",
    "SortedHashedWheel",
    "Stats",
    "Timer",
    "UnorderedList",
    "Wheel",
]
