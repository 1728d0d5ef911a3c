"""Nodes that are suspended, each at another step, and go on: what they write under a lease that ended does not count.

All of them at once: eight nodes stop, one before and one after each step, and the ninth does the work of all.
"""

import asyncio
import signal
from pathlib import Path
from random import Random

from tests.cluster.checker import Fault
from tests.cluster.halting import HALTS
from tests.cluster.nodes import Nodes, now_ns, play
from tests.cluster.places import Place
from tests.cluster.stream import Stream

LEASE_MS = 3_000  # nine nodes start at once, and a busy machine must not cost the others their leases
FILE_LEASE_MS = 500  # nobody waits for its end


def test_no_stale_write_is_accepted_whichever_step_a_node_is_suspended_at(place: Place, tmp_path: Path) -> None:
    async def story(nodes: Nodes) -> None:
        await nodes.start("keeper")
        stream = Stream(nodes, Random(6))
        halting = {f"{halt.when}-{halt.step}": halt for halt in HALTS}

        async def halt(name: str) -> None:
            await nodes.start(name, halt=halting[name])
            await nodes.until_halted(name)

        async with stream.flowing():
            begun_ns = now_ns()
            if place.file is None:
                await asyncio.gather(*map(halt, halting))
                await nodes.until_shares(64)
                assert set(await nodes.held()) == {"keeper"}
            else:  # there a node owns its partitions for as long as it lives, suspended or not: one after the other
                for name in halting:
                    await halt(name)
                    await asyncio.sleep(FILE_LEASE_MS / 1000)
                    nodes.send(name, signal.SIGCONT)
            await nodes.until_begun("keeper", each=200)
            done = await nodes.completed()
            assert len(done) > 50
            for name in halting:
                nodes.send(name, signal.SIGCONT)
            await nodes.until_begun(*halting, each=1)  # each takes part again
            await nodes.until_shares(*[7] * 8, 8)
            faults = [Fault("halt", name, begun_ns, now_ns()) for name in halting]
            assert await nodes.as_they_are(done) == done, "what was done stays as it was"
        verdict = await stream.judged(faults)
        assert verdict.good, str(verdict)

    play(tmp_path, place.url, story, LEASE_MS if place.file is None else FILE_LEASE_MS)
