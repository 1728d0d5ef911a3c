"""Processes on one file: they share the work, take over from those that die or leave, and nobody writes too late."""

import asyncio
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from tests.cluster import nodes as processes
from tests.cluster.nodes import LEASE_MS, Nodes, until
from tests.cluster.places import sqlite_writable
from tickwheel.stores.contract import Filter
from tickwheel.tasks import Status


def play(folder: Path, story: Callable[[Nodes], Awaitable[None]], lease_ms: int = LEASE_MS) -> None:
    processes.play(folder, f"sqlite:///{folder}/tasks.db", story, lease_ms)


def test_two_processes_share_the_work_and_a_third_joins(tmp_path: Path) -> None:
    async def story(nodes: Nodes) -> None:
        await nodes.start("a")
        assert await nodes.shares() == [64], "the first has everything at once"
        async with nodes.stream():
            await nodes.until_begun("a")
            await nodes.start("b")
            await nodes.until_shares(32, 32)
            await nodes.until_begun("a", "b")
            before = await nodes.held()
            await nodes.start("c")
            await nodes.until_shares(21, 21, 22)
            await nodes.until_begun("a", "b", "c")
            after = await nodes.held()
        assert after["a"] < before["a"]
        assert after["b"] < before["b"]
        await nodes.until_done()
        assert nodes.ran_twice() == set()

    play(tmp_path, story, lease_ms=3_000)


def test_a_process_that_leaves_in_order_hands_over_at_once(tmp_path: Path) -> None:
    async def story(nodes: Nodes) -> None:
        await nodes.start("a")
        await nodes.start("b")
        async with nodes.stream():
            await nodes.until_shares(32, 32)
            await nodes.until_begun("a", "b")
            assert await nodes.end("a", signal.SIGTERM) == 0
            left = time.monotonic()
            await nodes.until_shares(64)
            took_s = time.monotonic() - left
            await nodes.until_begun("b", each=100)
        await nodes.until_done()
        assert nodes.ran_twice() == set()
        assert took_s < 8.0, "it was told, and did not wait for its next round"

    play(tmp_path, story, lease_ms=30_000)  # a round takes ten seconds


def test_what_a_killed_process_had_is_taken_over_at_once(tmp_path: Path) -> None:
    async def story(nodes: Nodes) -> None:
        await nodes.start("a")
        await nodes.start("b")
        async with nodes.stream():
            await nodes.until_shares(32, 32)
            await nodes.until_begun("a", "b")
            partitions = (await nodes.held())["a"]
            await nodes.end("a", signal.SIGKILL)
            running = (await nodes.store.query(Filter(status=Status.RUNNING), None, 1000)).tasks
            await nodes.until_shares(64)
            await nodes.until_begun("b", each=100)
        await nodes.until_done()
        in_flight = {task.id for task in running if task.partition in partitions}
        again = nodes.ran_twice() - in_flight
        assert [line for line in nodes.lines() if line.id in again] == [], "it was not in flight"

    play(tmp_path, story, lease_ms=600_000)  # nobody waits for a lease to end


def test_a_process_that_is_suspended_for_longer_than_a_lease_loses_nothing(tmp_path: Path) -> None:
    async def story(nodes: Nodes) -> None:
        await nodes.start("a")
        await nodes.start("b")
        await nodes.until_shares(32, 32)
        later = await nodes.add(100, delay_s=4.0)  # in both their indexes
        once = await nodes.add(100, seconds=2.5, at_most_once=True)

        async def all_begun() -> bool:
            return nodes.begun().total() >= len(once)

        await until(all_begun)
        suspend(nodes, "a")
        ended = {line.id for line in nodes.lines() if line.what == "end"}
        in_flight = {line.id for line in nodes.lines() if line.name == "a"} - ended
        assert in_flight
        mine = (await nodes.held())["a"]
        await asyncio.sleep(2 * LEASE_MS / 1000)
        assert (await nodes.held())["a"] == mine, "it is suspended, and not dead"
        nodes.send("a", signal.SIGCONT)
        await nodes.until_done()
        assert nodes.ran_twice() == set()
        found = await nodes.store.get([*once, *later])
        assert {(task.status, task.attempt) for task in found if task} == {(Status.COMPLETED, 1)}
        assert (await nodes.held())["a"] == mine

    play(tmp_path, story)


def test_a_process_that_is_killed_with_its_clock_an_hour_ahead_does_not_stall_the_next(tmp_path: Path) -> None:
    async def story(nodes: Nodes) -> None:
        await nodes.start("ahead", clock_off_s=3600)
        await nodes.until_shares(64)
        await nodes.end("ahead", signal.SIGKILL)
        await nodes.start("right")
        assert await nodes.shares() == [64], "it has everything when it is started"
        await nodes.add(100)
        await nodes.until_done()
        assert nodes.begun() == {"right": 100}

    play(tmp_path, story)


def suspend(nodes: Nodes, name: str) -> None:
    """Stop a process, but not in the middle of a write: nobody else could write then, and take over."""
    path = Path(nodes.url.removeprefix("sqlite:///"))
    while True:
        nodes.send(name, signal.SIGSTOP)
        while not nodes.is_halted(name):
            pass  # a signal takes effect in a moment
        if sqlite_writable(path):
            return
        nodes.send(name, signal.SIGCONT)
