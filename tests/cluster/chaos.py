"""Campaigns from the command line: `make chaos`.

    python -m tests.cluster.chaos --store postgresql --seconds 600 --seed 7 --json
    python -m tests.cluster.chaos --store sqlite --seconds 1200 --kills 2000 --tasks 100000

It goes on for as long as it is told, and until there were as many kills (SIGKILL) and tasks as asked for. It prints its
seed first: the same seed makes the same things go wrong in the same order, if not at the same instant. It ends with 1
if a promise was broken, and leaves what nodes wrote in a folder that it names.
"""

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import Random, SystemRandom
from typing import Final, NamedTuple, Self

import msgspec
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from tests.cluster.campaign import FAULTS, Campaign
from tests.cluster.checker import PROMISES, Verdict
from tests.cluster.nodes import on_stage
from tests.cluster.places import PLACES
from tests.cluster.stream import PER_S
from tests.faketime import OFFSET, settable_clock

__all__ = ["Plan", "main", "wage"]

TELL_S: Final = 10.0  # between two lines, where there is no terminal
STORMS: Final = 0.75  # of what goes wrong, while there were too few kills
SHOWN_MAX: Final = 5  # tasks of which a promise was broken, in the summary
SPARE: Final = 1.3  # times as many tasks a second as are needed: nobody adds while the disk is full


class Plan(NamedTuple):
    """What to do to a store, and for how long."""

    store: str
    seconds: float
    seed: int
    lease_ms: int = 1_500
    faults: tuple[str, ...] = tuple(FAULTS)
    kills: int = 0  # at the least
    tasks: int = 0

    def left(self, spent_s: float, campaign: Campaign) -> bool:
        """Whether there is more to do."""
        return spent_s < self.seconds or campaign.kills < self.kills or len(campaign.stream.targets) < self.tasks

    def done(self, spent_s: float, campaign: Campaign) -> float:
        """Return how much of it is done: of what is least so."""
        asked = [(spent_s, self.seconds), (campaign.kills, self.kills), (len(campaign.stream.targets), self.tasks)]
        return min(1.0, *(count / wanted for count, wanted in asked if wanted))

    def lags(self, spent_s: float, campaign: Campaign) -> bool:
        """Whether there were fewer kills than there should be by now."""
        return campaign.kills < self.kills * min(spent_s / self.seconds, 1.0)


async def wage(plan: Plan, folder: Path) -> tuple[Verdict, Counter[str]]:
    """Have one campaign; return what the checker found, and how often what went wrong, kills one by one."""
    chance, suffered = Random(plan.seed), Counter[str]()
    with PLACES[plan.store](folder) as place:
        async with (
            on_stage(folder, place.url, plan.lease_ms) as nodes,
            Campaign.on(nodes, place, plan.seed, max(PER_S, SPARE * plan.tasks / plan.seconds)) as campaign,
        ):
            chosen = possible(campaign, plan.faults)
            left = chance.sample(chosen, len(chosen))
            begun = time.monotonic()
            with Teller(plan) as teller:
                async with campaign.stream.flowing():
                    while plan.left(spent_s := time.monotonic() - begun, campaign):
                        if left:
                            what = left.pop()  # each once, and then by chance
                        elif "storm" in chosen and plan.lags(spent_s, campaign) and chance.random() < STORMS:
                            what = "storm"
                        else:
                            what = chance.choice(chosen)
                        teller.tell(spent_s, campaign, what)
                        await campaign.suffer(what)
                        suffered[what] += 1
                suffered["killed"] = campaign.kills
                teller.tell(time.monotonic() - begun, campaign, "the end")
            return await campaign.judge(), suffered


def possible(campaign: Campaign, wanted: tuple[str, ...]) -> list[str]:
    """Return what can go wrong in a campaign and is wanted."""
    found = [what for what in campaign.possible() if what in wanted]
    if not found:
        raise SystemExit(f"none of {', '.join(wanted)} can happen on this store")
    return found


class Teller:
    """Says how far it is: a bar on a terminal, and a line now and then elsewhere."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._console = Console(stderr=True)
        words = TextColumn("{task.fields[store]} {task.percentage:3.0f}% · {task.description}")
        self._progress = Progress(BarColumn(), words, TimeElapsedColumn(), console=self._console)
        self._task = self._progress.add_task("starts", total=1.0, store=plan.store)
        self._told_s = -TELL_S

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def tell(self, spent_s: float, campaign: Campaign, what: str) -> None:
        done = self._plan.done(spent_s, campaign)
        told = f"{campaign.kills:,} kills, {len(campaign.stream.targets):,} tasks, next: {what}"
        self._progress.update(self._task, completed=done, description=told)
        if not self._console.is_terminal and spent_s - self._told_s >= TELL_S:
            self._told_s = spent_s
            print(f"{self._plan.store}: {done:4.0%} in {spent_s:5.0f} s, {told}", file=sys.stderr, flush=True)


def show(store: str, verdict: Verdict, suffered: Counter[str], folder: Path) -> None:
    """Print what was done, what went wrong, and what the checker found."""
    table = Table(title=f"{store}: {'every promise was kept' if verdict.good else 'PROMISES WERE BROKEN'}")
    table.add_column("what")
    table.add_column("times", justify="right")
    table.add_column("first of them")
    rows = {
        "tasks": verdict.tasks,
        "runs": verdict.runs,
        "runs again, after a fault": verdict.again,
        "at most once, failed before the first line": verdict.unbegun,
        "runs at once of the handler with a limit, at most": verdict.at_once_max,
        "ms late, at most": verdict.late_ms_max,
    }
    for what, times in rows.items():
        table.add_row(what, f"{times:,}")
    table.add_section()
    for what, times in sorted(suffered.items()):
        table.add_row("SIGKILL" if what == "killed" else f"fault: {what}", f"{times:,}")
    table.add_section()
    for promise in PROMISES:
        found: list[str] = getattr(verdict, promise)
        table.add_row(promise, f"{len(found):,}", ", ".join(found[:SHOWN_MAX]))
    Console().print(table, f"{folder}: what nodes wrote", soft_wrap=True)


def main(arguments: list[str] | None = None) -> int:
    """Have a campaign on each store that is asked for; return 1 if one found anything."""
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.chaos", description=__doc__.split("\n")[0])
    parser.add_argument("--store", action="append", choices=[*PLACES], help="default: all of them; may be repeated")
    parser.add_argument("--seconds", type=float, default=120.0, help="for each store")
    parser.add_argument("--seed", type=int, help="default: a random one")
    parser.add_argument("--lease-ms", type=int, default=1_500)
    parser.add_argument("--fault", action="append", choices=[*FAULTS], help="default: all of them; may be repeated")
    parser.add_argument("--kills", type=int, default=0, help="on each store, at the least")
    parser.add_argument("--tasks", type=int, default=0, help="on each store, at the least")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    asked = parser.parse_args(arguments)
    seed = SystemRandom().randrange(1_000_000) if asked.seed is None else asked.seed
    print(f"seed {seed}", file=sys.stderr, flush=True)
    results, good = [], True
    for store in asked.store or PLACES:
        folder = Path(tempfile.mkdtemp(prefix=f"chaos-{store}-"))
        faults = tuple(asked.fault or FAULTS)
        plan = Plan(store, asked.seconds, seed, asked.lease_ms, faults, asked.kills, asked.tasks)
        verdict, suffered = asyncio.run(wage(plan, folder))
        good = good and verdict.good
        results.append({"store": store, "seed": seed, "faults": suffered, "good": verdict.good, **told(verdict)})
        if not asked.json:
            show(store, verdict, suffered, folder)
    if asked.json:
        print(json.dumps(results, indent=2))
    return 0 if good else 1


def told(verdict: Verdict) -> dict[str, object]:
    """Return a verdict as JSON has it."""
    plain: dict[str, object] = msgspec.to_builtins(verdict)
    return plain


def have_settable_clock() -> None:
    """Be started again, with a clock that can be set, unless it can be."""
    if OFFSET not in os.environ:
        settings = settable_clock(Path(tempfile.mkdtemp(prefix="chaos-")) / "clock")
        command = [sys.executable, "-m", "tests.cluster.chaos", *sys.argv[1:]]
        os.execve(sys.executable, command, {**os.environ, **settings})


if __name__ == "__main__":
    have_settable_clock()
    sys.exit(main())
