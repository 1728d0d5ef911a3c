"""A process that adds a large batch to an etcd store: started, suspended and killed by test_etcd_batches.py.

python -m tests.stores.etcd_child URL TASKS
"""

import asyncio
import sys

from tickwheel.errors import StoreUnavailable
from tickwheel.stores import open_store
from tickwheel.testing.stores.scenario import task


async def main(url: str, tasks: int) -> None:
    store = await open_store(url)
    batch = [task(f"{number:05}", partition=number % 64) for number in range(tasks)]
    while True:  # who was suspended in the middle of a call is told that there was no answer, and asks again
        try:
            await store.add(batch, "keep")
            break
        except StoreUnavailable:
            continue
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
