"""Programs that tests of the SQLite store start, to be killed, cut off, or in the way."""

import asyncio
import logging
import os
import resource
import signal
import sys
import time
from pathlib import Path
from typing import Any

from tickwheel.errors import StoreError, StoreUnavailable
from tickwheel.stores import Store
from tickwheel.stores.sqlite import SqliteStore, leases
from tickwheel.testing.stores.scenario import task

NOBODY = 65534


async def opened(path: str) -> SqliteStore:
    return await SqliteStore.open(Path(path), now_ms=lambda: time.time_ns() // 1_000_000)


async def add_for_ever(path: str, prefix: str) -> None:
    """Add until killed, telling each id as soon as it is acknowledged."""
    store = await opened(path)

    async def add(number: int) -> None:
        count = 0
        while True:
            tasks = [task(f"{prefix}-{number}-{count}-{n}", partition=number) for n in range(1 + count % 3)]
            await store.add(tasks)
            print(*(each.id for each in tasks), flush=True)
            count += 1

    await asyncio.gather(*(add(number) for number in range(8)))


async def fill_the_disk(path: str) -> None:
    """Add until there is no room, make room, and see that everything acknowledged is there."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    store = await opened(path)
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, hard))
    acknowledged: list[str] = []
    refused: list[str] = []
    for round_number in range(100):
        ids = [f"{round_number}-{n}" for n in range(10)]
        calls = (store.add([task(each, args={"pad": "x" * 10_000})]) for each in ids)
        answers = await asyncio.gather(*calls, return_exceptions=True)
        for each, answer in zip(ids, answers, strict=True):
            assert isinstance(answer, list | StoreUnavailable), answer
            (acknowledged if isinstance(answer, list) else refused).append(each)
        if refused:
            break
    assert refused
    assert acknowledged
    assert all(await store.get(acknowledged))
    assert not any(await store.get(refused))
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    for each in refused:
        await store.add([task(each, args={"pad": "x" * 10_000})])
    await store.close()
    store = await opened(path)
    assert all(await store.get([*acknowledged, *refused]))
    assert sum((await store.counts()).values()) == len(acknowledged) + len(refused)
    await store.close()
    print("kept", len(acknowledged))


async def open_without_rights(path: str) -> None:
    """Open a file as a user who may do only what everybody may, and tell how that went."""
    await asyncio.to_thread(int)  # what threads need is loaded: that user may not get at it any more
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    try:
        await (await opened(path)).close()
        print("opened")
    except StoreError as error:
        print(type(error).__name__, error)


async def open_many() -> None:
    """Open every file that is named, tell how many partitions it has, and close all of them at the end."""
    stores = []
    for line in iter(sys.stdin.readline, ""):
        stores.append(await opened(line.strip()))
        print(stores[-1].partitions, flush=True)
    for store in stores:
        await store.close()


async def take_all(path: str) -> None:
    """Take every partition that is free, when told to go on add a task in one, and end when told to."""
    store: Store = await opened(path)
    leases = await store.acquire(range(store.partitions), f"child {os.getpid()}", 600_000)
    print(len(leases), flush=True)
    for line in iter(sys.stdin.readline, ""):
        await store.add([task(each, partition=3) for each in line.split()])
        print("added", flush=True)
    await store.close()


async def own_all(path: str, *nodes: str) -> None:
    """Own every partition, shared by nodes with a store of their own each; then do what each line says."""
    stores = [await opened(path) for _ in nodes]
    for number, (node, store) in enumerate(zip(nodes, stores, strict=True)):
        await store.heartbeat(node, 3000)
        await store.acquire(range(number, store.partitions, len(nodes)), node, 3000)
    print("owns", flush=True)
    for line in iter(sys.stdin.readline, ""):
        if line == "fork\n" and not os.fork():
            signal.pause()
        if line == "close in vain\n":
            for store in stores:
                store._database.writer.set_commit_hook(lambda: True)  # every commit fails
                await store.close()
        await asyncio.sleep(0)
        print("did", line.strip(), flush=True)


async def die_while_taking_over(path: str) -> None:
    """Find a dead node, forget it, and be killed before that is committed."""
    reap = leases.reap

    def die(*args: Any) -> list[str]:
        reap(*args)
        os.kill(os.getpid(), signal.SIGKILL)
        return []

    leases.reap = die  # type: ignore[assignment]
    await (await opened(path)).heartbeat("heir", 3000)


async def open_in_a_folder_without_rights(path: str) -> None:
    """Own what is free as a user who may write the database, and nothing beside it."""
    await asyncio.to_thread(int)
    logging.basicConfig(stream=sys.stdout, format="%(message)s")
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    store = await opened(path)
    for _ in range(2):
        await store.heartbeat("here", 600_000)
    print(store.timed_leases, len(await store.acquire(range(64), "here", 600_000)), flush=True)
    await store.close()


if __name__ == "__main__":
    programs = {
        each.__name__: each
        for each in (
            add_for_ever,
            die_while_taking_over,
            fill_the_disk,
            open_in_a_folder_without_rights,
            open_many,
            open_without_rights,
            own_all,
            take_all,
        )
    }
    asyncio.run(programs[sys.argv[1]](*sys.argv[2:]))
