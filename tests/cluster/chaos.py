"""Campaigns from the command line: `make chaos`.

    python -m tests.cluster.chaos --store postgresql --seconds 600 --seed 7 --json

It prints its seed first: the same seed makes the same things go wrong in the same order, if not at the same instant. It
ends with 1 if a promise was broken, and leaves what nodes wrote in a folder that it names.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import Random, SystemRandom
from typing import NamedTuple

import msgspec

from tests.cluster.campaign import FAULTS, Campaign
from tests.cluster.checker import Verdict
from tests.cluster.nodes import on_stage
from tests.cluster.places import PLACES

__all__ = ["Plan", "main", "wage"]


class Plan(NamedTuple):
    """What to do to a store, and for how long."""

    store: str
    seconds: float
    seed: int
    lease_ms: int = 1_500
    faults: tuple[str, ...] = tuple(FAULTS)
    quiet: bool = False


async def wage(plan: Plan, folder: Path) -> tuple[Verdict, Counter[str]]:
    """Have one campaign; return what the checker found, and how often what went wrong."""
    chance, suffered = Random(plan.seed), Counter[str]()
    with PLACES[plan.store](folder) as place:
        async with (
            on_stage(folder, place.url, plan.lease_ms) as nodes,
            Campaign.on(nodes, place, plan.seed) as campaign,
        ):
            chosen = possible(campaign, plan.faults)
            left = chance.sample(chosen, len(chosen))
            begun = time.monotonic()
            async with campaign.stream.flowing():
                while time.monotonic() - begun < plan.seconds:
                    what = left.pop() if left else chance.choice(chosen)  # each once, and then by chance
                    tell(plan, begun, campaign, what)
                    await campaign.suffer(what)
                    suffered[what] += 1
            return await campaign.judge(), suffered


def possible(campaign: Campaign, wanted: tuple[str, ...]) -> list[str]:
    """Return what can go wrong in a campaign and is wanted."""
    found = [what for what in campaign.possible() if what in wanted]
    if not found:
        raise SystemExit(f"none of {', '.join(wanted)} can happen on this store")
    return found


def tell(plan: Plan, begun: float, campaign: Campaign, what: str) -> None:
    """Say how far it is."""
    if not plan.quiet:
        begun_s, promised = time.monotonic() - begun, len(campaign.stream.targets)
        print(
            f"{plan.store}: {begun_s:5.1f} of {plan.seconds:g} s, {promised:6,} tasks, next: {what}",
            file=sys.stderr,
            flush=True,
        )


def main(arguments: list[str] | None = None) -> int:
    """Have a campaign on each store that is asked for; return 1 if one found anything."""
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.chaos", description=__doc__.split("\n")[0])
    parser.add_argument("--store", action="append", choices=[*PLACES], help="all of them unless told; may be repeated")
    parser.add_argument("--seconds", type=float, default=120.0, help="for each store")
    parser.add_argument("--seed", type=int, help="by chance unless told")
    parser.add_argument("--lease-ms", type=int, default=1_500)
    parser.add_argument("--fault", action="append", choices=[*FAULTS], help="all of them unless told; may be repeated")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    asked = parser.parse_args(arguments)
    seed = SystemRandom().randrange(1_000_000) if asked.seed is None else asked.seed
    print(f"seed {seed}", file=sys.stderr, flush=True)
    results, good = [], True
    for store in asked.store or PLACES:
        folder = Path(tempfile.mkdtemp(prefix=f"chaos-{store}-"))
        plan = Plan(store, asked.seconds, seed, asked.lease_ms, tuple(asked.fault or FAULTS))
        verdict, suffered = asyncio.run(wage(plan, folder))
        good = good and verdict.good
        results.append({"store": store, "seed": seed, "faults": suffered, "good": verdict.good, **told(verdict)})
        if not asked.json:
            print(f"{store}: {verdict}; faults: {', '.join(f'{n} {what}' for what, n in suffered.items())}; {folder}")
    if asked.json:
        print(json.dumps(results, indent=2))
    return 0 if good else 1


def told(verdict: Verdict) -> dict[str, object]:
    """Return a verdict as JSON has it."""
    plain: dict[str, object] = msgspec.to_builtins(verdict)
    return plain


if __name__ == "__main__":
    sys.exit(main())
