"""The same picture as in a browser, in a terminal: the dials of the wheel, how much comes and goes, and what happened.

level 1  1 s   17/60  ▁▁▃▁▁▁▁▁▁█▁▁▁▁▁▁   12   a dial: how long a slot is, the hand, how full its slots are, timers
"""

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from tickwheel.cli.output import unmarked

__all__ = ["BLOCKS", "dial", "draw"]

BLOCKS: Final = " ▁▂▃▄▅▆▇█"
DIAL_CHARS: Final = 64
EVENTS_SHOWN: Final = 10
MS: Final = 1000
SLOTS: Final = {0.001: "1 ms", 60: "1 min", 3_600: "1 h", 86_400: "1 d"}  # by seconds; others are told in seconds


def dial(occupancy: Iterable[int], width: int = DIAL_CHARS) -> str:
    """Draw the slots of a dial as blocks, several slots to a block if there are more than fit."""
    slots = list(occupancy)
    width = min(width, len(slots))
    filled = [sum(slots[first * len(slots) // width : (first + 1) * len(slots) // width]) for first in range(width)]
    most = max(filled, default=0)
    return "".join(BLOCKS[-(-count * (len(BLOCKS) - 1) // most)] if count else BLOCKS[0] for count in filled)


def draw(wheels: Mapping[str, Any], stats: Mapping[str, Any], events: deque[str]) -> RenderableType:
    """Draw everything."""
    return Group(
        Panel(draw_wheels(wheels), title="wheels", title_align="left"),
        Panel(draw_stats(stats), title="tasks", title_align="left"),
        Panel(
            Text("\n".join(map(unmarked, list(events)[-EVENTS_SHOWN:])) or "nothing yet"),
            title="events",
            title_align="left",
        ),
    )


def draw_wheels(wheels: Mapping[str, Any]) -> Table:
    """Draw a line for each dial, the fastest first, and what is beyond them."""
    table = Table.grid(padding=(0, 2))
    for level in wheels["levels"]:
        hand = f"{level['hand']}/{level['slots']}"
        slots = f"[cyan]{dial(level['occupancy'])}[/]"
        length = SLOTS.get(level["slot_seconds"], f"{level['slot_seconds']:g} s")
        table.add_row(f"level {level['level']}", length, hand, slots, f"{level['timers']:,}")
    table.add_row("overflow", "", "", "", f"{wheels['overflow']:,}")
    table.add_row("in the store", "", "", "", f"{wheels['far']:,}")
    return table


def draw_stats(stats: Mapping[str, Any]) -> Table:
    """Draw how many tasks there are, how fast they go, and how late."""
    table = Table.grid(padding=(0, 2))
    table.add_row(*(f"{count:,} [dim]{status}[/]" for status, count in stats["counts"].items()))
    table.add_row(*(f"{rate:,.1f}/s [dim]{name}[/]" for name, rate in stats["per_second"].items()))
    late = stats["lateness"]
    table.add_row(*(f"{late[name] * MS:,.1f} ms [dim]late, {name}[/]" for name in ("p50", "p99", "max")))
    table.add_row(f"{stats['queued']:,} of {stats['queued_max']:,} [dim]in flight[/]")
    return table
