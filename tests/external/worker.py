"""The two sides of a hybrid as processes that are killed: started again and again by test_kills.py.

python -m tests.external.worker FOLDER near              runs tasks, and writes to the oracle what ran
python -m tests.external.worker FOLDER far SEED          has APScheduler, and adds; prints what is acknowledged
python -m tests.external.worker FOLDER both drain        both, until nothing is left to do
"""

import asyncio
import os
import sys
import time
from pathlib import Path

from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.background import BackgroundScheduler

from tickwheel import aio
from tickwheel.external import HybridScheduler
from tickwheel.external.apscheduler import APSchedulerFar
from tickwheel.scheduler import AsyncScheduler
from tickwheel.tasks import Status, TaskContext

THRESHOLD_S = 0.3
DELAY_S = 1.0  # 0.7 s of it far away


async def main(folder: Path, side: str, *more: str) -> None:
    url = f"sqlite:///{folder}/tasks.db"
    near = AsyncScheduler(url, run=side != "far", lease_ttl_ms=400, rescan_ms=500, horizon_ms=2000)
    oracle = os.open(folder / "oracle.txt", os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    @near.task("note")
    async def note(context: TaskContext) -> None:
        os.write(oracle, f"{context.id} {context.scheduled_at} {time.time_ns() // 1_000_000}\n".encode())

    if side == "near":
        async with near:
            print("ready", flush=True)
            await asyncio.Event().wait()
    jobs = BackgroundScheduler(jobstores={"default": SQLAlchemyJobStore(f"sqlite:///{folder}/jobs.db")})
    far = APSchedulerFar(jobs, url, again="1s")
    # No sweep in between that would hide what APScheduler forgets: only the one at the start.
    hybrid = HybridScheduler(near, far, threshold=THRESHOLD_S, sweep_every="1h")
    jobs.start()
    async with hybrid:
        print("ready", flush=True)
        if side == "far":
            await add(hybrid, int(more[0]))
        while (await near.counts())[Status.PAUSED] or await undone(near) or jobs.get_jobs():  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    jobs.shutdown()


async def add(hybrid: HybridScheduler, seed: int) -> None:
    for number in range(1_000_000):
        task = await hybrid.add("note", delay=DELAY_S, id=f"{seed}-{number}")
        print(task.id, flush=True)
        await asyncio.sleep(0.002)


async def undone(near: AsyncScheduler) -> bool:
    return any(
        task.status in (Status.PENDING, Status.RUNNING) for task in (await near.list(handler="note", limit=1000)).tasks
    )


if __name__ == "__main__":
    aio.run(main(Path(sys.argv[1]), *sys.argv[2:]))
