"""A small hierarchical wheel turning in the terminal: `python -m tickwheel.wheels`.

Three dials, drawn as rows of slots. The hand stands on the bright slot of each; a slot shows how many
timers wait in it. Timers are started at random, move down a dial when their slot is cascaded, and fire
when the hand of the lowest dial reaches them. What happened is told below.

    fast    20 x 1    ·  ·  2  ·  1  ·  ·  3  ·   tick 20  timer 4 moves down: middle dial, slot 1 → fast dial, slot 7
    middle  12 x 20   ·  1  ·  ·  2  ·            tick 27  timer 4 fires, 21 ticks after its start
    slow    6 x 240   ·  ·  1  ·
"""

import argparse
import sys
import time
from collections import deque
from collections.abc import Iterator
from random import Random
from typing import cast

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from tickwheel.wheels.geometry import Geometry
from tickwheel.wheels.hierarchical_wheel import HierarchicalWheel
from tickwheel.wheels.timer import Timer

# Small enough to be seen whole, and for its slowest dial to move while one watches.
SHOWN = Geometry([(1, 20), (20, 12), (240, 6)])
NAMES = ("fast", "middle", "slow")

STORY_LINES = 10
PENDING_MAX = 60
TICKS_WITHOUT_TERMINAL = 300


class Show:
    """A wheel, the timers started in it, and what is worth telling about the last tick."""

    def __init__(self, seed: int) -> None:
        self.wheel = HierarchicalWheel(SHOWN)
        self.random = Random(seed)  # noqa: S311 - a show, not a secret
        self.timers: dict[int, Timer] = {}
        self.started = 0
        self.story: deque[Text] = deque(maxlen=STORY_LINES)

    def tick(self) -> None:
        """Start and stop something, move the hand by one, and tell."""
        self.start_and_stop()
        before = {number: place(timer) for number, timer in self.timers.items()}
        for timer in self.wheel.advance(self.wheel.now + 1):
            number, start = cast("tuple[int, int]", timer.take())
            del self.timers[number]
            self.tell(f"timer {number} fires, {timer.due - start} ticks after its start", "bold green")
        for number, timer in self.timers.items():
            if before[number] != place(timer):
                self.tell(f"timer {number} moves down: {before[number]} → {place(timer)}", "yellow")

    def start_and_stop(self) -> None:
        """Start a timer two ticks in three, and stop one now and then."""
        if self.random.random() < 0.66 and len(self.timers) < PENDING_MAX:  # noqa: PLR2004 - two in three
            self.started += 1
            # Delays of all sizes: as likely below 10 as beyond the last dial.
            delay = int(2 ** self.random.uniform(1, 11))
            self.timers[self.started] = timer = self.wheel.start(delay, (self.started, self.wheel.now))
            self.tell(f"timer {self.started} starts, due in {delay}: {place(timer)}", "cyan")
        if self.timers and self.random.random() < 0.1:  # noqa: PLR2004 - one in ten
            number = self.random.choice(list(self.timers))
            self.wheel.stop(self.timers.pop(number))
            self.tell(f"timer {number} is stopped", "red")

    def tell(self, what: str, style: str) -> None:
        """Add a line to the story."""
        self.story.append(Text(f"tick {self.wheel.now:>5}  {what}", style))

    def picture(self) -> Group:
        """Draw the dials, the figures and the story."""
        dials = Table.grid(padding=(0, 1))
        for name, dial, counts in zip(NAMES, SHOWN.dials, self.wheel.occupancy(), strict=True):
            hand = self.wheel.now // dial.tick % dial.slots
            dials.add_row(Text(name, "bold"), Text(f"{dial.slots} x {dial.tick}", "dim"), draw(counts, hand))
        stats = self.wheel.stats
        figures = (
            f"tick {self.wheel.now}   pending {stats.pending}   beyond the last dial {stats.overflow}   "
            f"started {stats.started}   stopped {stats.stopped}   fired {stats.expired}   moved down {stats.cascaded}"
        )
        return Group(dials, Text(), Text(figures, "bold"), Text(), *self.story)


def place(timer: Timer) -> str:
    """Say where a pending timer waits."""
    slot = timer.slot
    return f"{NAMES[slot.level]} dial, slot {slot.index}" if slot.level >= 0 else "beyond the last dial"


def draw(counts: list[int], hand: int) -> Text:
    """Draw one dial as a row of slots."""
    row = Text()
    for index, count in enumerate(counts):
        style = "black on bright_white" if index == hand else "bold yellow" if count else "dim"
        row.append(f"{count or '·':>2} ", style)
    return row


def frames(show: Show, ticks: int | None) -> Iterator[Group]:
    """Yield a picture after each tick."""
    while ticks is None or show.wheel.now < ticks:
        show.tick()
        yield show.picture()


def read_options(arguments: list[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        "python -m tickwheel.wheels", description="Watch a hierarchical timing wheel turn."
    )
    parser.add_argument("--ticks", type=whole, help="stop after so many ticks (default: turn until Ctrl-C)")
    parser.add_argument("--speed", type=whole, default=5, help="ticks a second; 0 for as fast as possible (default: 5)")
    parser.add_argument("--seed", type=whole, default=1, help="another seed, another story (default: 1)")
    return parser.parse_args(arguments)


def whole(text: str) -> int:
    """Read a whole number of at least 0."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 0")
    return int(text)


def main(arguments: list[str]) -> None:
    """Turn the wheel until it is enough."""
    options = read_options(arguments)
    console = Console()
    ticks = options.ticks
    pause_seconds = 1 / options.speed if options.speed else 0.0
    if not console.is_terminal:
        ticks, pause_seconds = TICKS_WITHOUT_TERMINAL if ticks is None else ticks, 0.0
    show = Show(options.seed)
    try:
        with Live(show.picture(), console=console, auto_refresh=False) as live:
            for picture in frames(show, ticks):
                live.update(picture, refresh=console.is_terminal)
                time.sleep(pause_seconds)
    except KeyboardInterrupt:
        console.print("stopped")


if __name__ == "__main__":
    main(sys.argv[1:])
