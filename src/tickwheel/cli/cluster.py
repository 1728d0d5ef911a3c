"""`tickwheel cluster`: which nodes run the tasks of a store, and until when each may count on its partitions.

>>> ranges([0, 1, 2, 7, 9, 10])
'0-2, 7, 9-10'
"""

from collections.abc import Sequence
from itertools import pairwise

from rich.table import Table

from tickwheel.cli import output
from tickwheel.cli.commands import app, console, plainly
from tickwheel.cli.places import DEFAULT_STORE, JsonOption, StoreOption, TokenOption, UrlOption, opened
from tickwheel.stores.contract import Lease

__all__ = ["ranges"]


@app.command()
@plainly
def cluster(
    *,
    store: StoreOption = DEFAULT_STORE,
    url: UrlOption = None,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the nodes that run tasks, their partitions, and when their leases end."""
    with opened(store, url, token) as scheduler:
        leases = scheduler.leases()
    held: dict[str, list[Lease]] = {}
    for lease in leases:
        held.setdefault(lease.node, []).append(lease)
    if as_json:
        output.print_json({"nodes": [told(held[node]) for node in sorted(held)]})
    elif not held:
        console.print("nobody runs tasks here: is `tickwheel worker` or `tickwheel serve` running?", highlight=False)
    else:
        table = Table("node", "partitions", "which", "epochs up to", "first lease ends (UTC)")
        for node in sorted(held):
            its = held[node]
            ends = [lease.expires_at for lease in its if lease.expires_at is not None]
            end = output.moment(min(ends)) if ends else "when its process ends"
            which = ranges(sorted(lease.partition for lease in its))
            table.add_row(output.visible(node), str(len(its)), which, str(max(lease.epoch for lease in its)), end)
        console.print(table)


def told(leases: Sequence[Lease]) -> dict[str, object]:
    """Return a node and its leases, for programs."""
    return {
        "node": leases[0].node,
        "leases": [
            {"partition": lease.partition, "epoch": lease.epoch, "expires_at": lease.expires_at} for lease in leases
        ],
    }


def ranges(numbers: Sequence[int]) -> str:
    """Write numbers that come one after the other as ranges."""
    if not numbers:
        return ""
    breaks = [(before, after) for before, after in pairwise(numbers) if after != before + 1]
    firsts = [numbers[0], *(after for _, after in breaks)]
    lasts = [*(before for before, _ in breaks), numbers[-1]]
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in zip(firsts, lasts, strict=True))
