"""The primary of a PostgreSQL cluster dies under load, and its standby is promoted: nothing acknowledged is lost."""

import asyncio
import signal
from pathlib import Path
from random import Random

from tests.cluster.checker import EVERYBODY, Fault
from tests.cluster.nodes import Nodes, now_ns, play
from tests.cluster.stream import Stream
from tickwheel.testing.postgres import PostgresServer


def test_nodes_go_on_with_the_standby_when_the_primary_dies(tmp_path: Path) -> None:
    async def story(nodes: Nodes) -> None:
        for name in "ab":
            await nodes.start(name)
        stream = Stream(nodes, Random(3))
        async with stream.flowing():
            await nodes.until_shares(32, 32)
            await nodes.until_begun("a", "b", each=50)
            begun_ns = now_ns()
            await asyncio.to_thread(primary.stop, signal.SIGQUIT)
            acknowledged = len(stream.targets)
            assert acknowledged > 100
            await asyncio.to_thread(standby.promote)
            await nodes.until_begun("a", "b", each=50)
            fault = Fault("failover", EVERYBODY, begun_ns, now_ns())
            assert len(stream.targets) > acknowledged, "and there was more to do"
        verdict = await stream.judged([fault])
        assert verdict.good, str(verdict)

    with PostgresServer.fresh() as primary, primary.standby() as standby:
        primary.wait_for_standbys()
        both = f"127.0.0.1:{primary.port},127.0.0.1:{standby.port}"
        url = primary.url.replace(f"127.0.0.1:{primary.port}", both)
        play(tmp_path, f"{url}?target_session_attrs=read-write", story)
