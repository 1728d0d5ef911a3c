"""Samples of what one would use instead, each imported where it is needed: a package may be missing."""

from __future__ import annotations

import asyncio
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from bench.durable.setting import DAYS_AHEAD, Figures, Setting

__all__ = [
    "apscheduler_add",
    "apscheduler_add_wal",
    "apscheduler_fire_async",
    "apscheduler_fire_threads",
    "apsw_add",
    "arq_fire",
    "huey_add",
    "procrastinate_fire",
]

BATCH = 1_000  # rows in a transaction, as in an add_many
FIRE_LEAD_S = 0.5  # from when all are added until they are due
PATIENCE_S = 120.0
TRIED = 10  # jobs that are added to see how long it takes
ARQ_JOBS = 100  # at once: with more it is slower
PROCRASTINATE_JOBS = 5  # at once: it fetches one after the other, and with more it is slower
LOOK_S = 0.005  # between two looks whether all is over


def noop(order_id: int) -> None:
    """Do nothing."""


# -- SQLite itself


def apsw_add(setting: Setting) -> Figures:
    """Insert n rows of the same content into the same tables, with nothing around it."""
    from bench.durable.ours import draft_far, far_id  # noqa: PLC0415 - for a sample of another peer it need not be there
    from tickwheel.stores import validation  # noqa: PLC0415
    from tickwheel.stores.sqlite.connection import connect  # noqa: PLC0415
    from tickwheel.stores.sqlite.schema import TASKS  # noqa: PLC0415
    from tickwheel.stores.sqlite.statements import SQL  # noqa: PLC0415
    from tickwheel.stores.sqlite.writes import _new_row  # noqa: PLC0415

    connection = connect(setting.folder / "tasks.db", TASKS, lambda _: None)
    now_ms = time.time_ns() // 1_000_000
    tasks = [draft_far(far_id(number), now_ms, 64) for number in range(setting.n)]
    rows = [_new_row(task, validation.encode(task)) for task in tasks]
    began_s = time.perf_counter()
    for first in range(0, setting.n, BATCH):
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(SQL["insert"], rows[first : first + BATCH])
        connection.execute("COMMIT")
    took_s = time.perf_counter() - began_s
    assert connection.execute("SELECT count(*) FROM tasks").get == setting.n
    connection.close()
    return {"per_s": setting.n / took_s}


# -- APScheduler 3


def apscheduler_add(setting: Setting) -> Figures:
    """Add n far jobs one by one, as there is no other way."""
    return _apscheduler_add(setting, wal=False)


def apscheduler_add_wal(setting: Setting) -> Figures:
    """Do the same with SQLite's write-ahead log, which one has to ask for."""
    return _apscheduler_add(setting, wal=True)


def _apscheduler_add(setting: Setting, *, wal: bool) -> Figures:
    from apscheduler.schedulers.background import BackgroundScheduler  # noqa: PLC0415

    store = _job_store(setting.folder, wal=wal)
    scheduler = BackgroundScheduler(jobstores={"default": store}, timezone=UTC)
    scheduler.start(paused=True)
    run_date = datetime.now(UTC) + timedelta(days=DAYS_AHEAD)
    began_s = time.perf_counter()
    for n in range(setting.n):
        scheduler.add_job(noop, "date", run_date=run_date, kwargs={"order_id": n}, misfire_grace_time=None)
    took_s = time.perf_counter() - began_s
    assert len(store.get_all_jobs()) == setting.n
    scheduler.shutdown()
    return {"per_s": setting.n / took_s}


def _job_store(folder: Path, *, wal: bool) -> Any:
    from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore  # noqa: PLC0415

    if wal:  # a mode that the file keeps
        import apsw  # noqa: PLC0415

        connection = apsw.Connection(str(folder / "jobs.db"))
        connection.pragma("journal_mode", "wal")
        connection.close()
    return SQLAlchemyJobStore(f"sqlite:///{folder}/jobs.db")


class Count:
    """How many jobs of this process ran."""

    def __init__(self) -> None:
        self.ran = 0
        self._lock = threading.Lock()

    def up(self) -> None:
        """Count one more, from any thread."""
        with self._lock:
            self.ran += 1


COUNT = Count()  # jobs are found by their name in a module, and so is what they share


def fired() -> None:
    """Do nothing but be counted, on a thread."""
    COUNT.up()


async def fired_on_loop() -> None:
    """Do nothing but be counted, on the loop."""
    COUNT.up()


def apscheduler_fire_threads(setting: Setting) -> Figures:
    """Run n jobs that are due at one moment on a pool of threads; they are over when all ran and none is stored."""
    from apscheduler.schedulers.background import BackgroundScheduler  # noqa: PLC0415

    store = _job_store(setting.folder, wal=False)
    scheduler = BackgroundScheduler(jobstores={"default": store}, timezone=UTC)
    due_s = _add_due(scheduler, fired, setting.n)
    deadline_s = time.monotonic() + PATIENCE_S
    while not _is_over(store, setting.n):
        assert time.monotonic() < deadline_s
        time.sleep(LOOK_S)
    took_s = time.time() - due_s
    scheduler.shutdown()
    return {"per_s": setting.n / took_s}


def apscheduler_fire_async(setting: Setting) -> Figures:
    """Run n jobs that are due at one moment on the loop."""
    from apscheduler.schedulers.asyncio import AsyncIOScheduler  # noqa: PLC0415

    async def sample() -> Figures:
        store = _job_store(setting.folder, wal=False)
        scheduler = AsyncIOScheduler(jobstores={"default": store}, timezone=UTC)
        due_s = _add_due(scheduler, fired_on_loop, setting.n)
        async with asyncio.timeout(PATIENCE_S):
            while not _is_over(store, setting.n):  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(LOOK_S)
        took_s = time.time() - due_s
        scheduler.shutdown()
        return {"per_s": setting.n / took_s}

    return asyncio.run(sample())


def _add_due(scheduler: Any, job: Any, n: int) -> float:
    """Add jobs while the scheduler does not run them yet; return when it could."""
    scheduler.start(paused=True)
    began_s = time.perf_counter()
    far = datetime.now(UTC) + timedelta(days=DAYS_AHEAD)
    for _ in range(TRIED):
        scheduler.add_job(job, "date", run_date=far, misfire_grace_time=None)
    each_s = (time.perf_counter() - began_s) / TRIED
    scheduler.remove_all_jobs()
    due = datetime.now(UTC) + timedelta(seconds=FIRE_LEAD_S + 2 * n * each_s)
    for _ in range(n):
        scheduler.add_job(job, "date", run_date=due, misfire_grace_time=None)
    resumed_s = time.time()
    scheduler.resume()
    return max(due.timestamp(), resumed_s)


def _is_over(store: Any, n: int) -> bool:
    return bool(COUNT.ran == n and store.get_next_run_time() is None)


# -- huey


def huey_add(setting: Setting) -> Figures:
    """Schedule n tasks one by one, each flushed to the disk; no consumer runs."""
    from huey import SqliteHuey  # noqa: PLC0415

    huey = SqliteHuey(filename=str(setting.folder / "huey.db"), fsync=True)
    task = huey.task()(noop)
    delay_s = DAYS_AHEAD * 86_400
    began_s = time.perf_counter()
    for n in range(setting.n):
        task.schedule(kwargs={"order_id": n}, delay=delay_s)
    took_s = time.perf_counter() - began_s
    assert huey.pending_count() + huey.scheduled_count() == setting.n
    return {"per_s": setting.n / took_s}


# -- arq


async def arq_noop(_context: dict[Any, Any], order_id: int) -> None:
    """Do nothing."""


def arq_fire(setting: Setting) -> Figures:
    """Run n jobs that are due at one moment, as many at once as it can take, and looking for them all the time."""
    from arq import create_pool  # noqa: PLC0415
    from arq.connections import RedisSettings  # noqa: PLC0415
    from arq.worker import Worker, func  # noqa: PLC0415

    noop_job: Any = arq_noop

    async def sample() -> Figures:
        settings = RedisSettings.from_dsn(setting.url)
        pool = await create_pool(settings)
        for n in range(setting.n):
            await pool.enqueue_job("noop", n)
        worker = Worker(
            functions=[func(noop_job, name="noop")],
            redis_settings=settings,
            burst=True,
            max_jobs=ARQ_JOBS,
            queue_read_limit=ARQ_JOBS,
            poll_delay=LOOK_S,
            handle_signals=False,
        )
        began_s = time.perf_counter()
        async with asyncio.timeout(PATIENCE_S):
            await worker.main()
        took_s = time.perf_counter() - began_s
        assert worker.jobs_complete == setting.n
        await worker.close()
        await pool.close()
        return {"per_s": setting.n / took_s}

    return asyncio.run(sample())


# -- procrastinate


async def procrastinate_noop(order_id: int) -> None:
    """Do nothing."""


def procrastinate_fire(setting: Setting) -> Figures:
    """Run n jobs that wait already, until a worker finds no more: each is fetched and finished durably."""
    from procrastinate import App, PsycopgConnector  # noqa: PLC0415

    async def sample() -> Figures:
        sessions = PROCRASTINATE_JOBS + 2  # one for each job, one to fetch, and one to listen
        app = App(connector=PsycopgConnector(conninfo=setting.url, min_size=sessions, max_size=sessions))
        task = app.task(name="noop")(procrastinate_noop)
        async with app.open_async(), asyncio.timeout(PATIENCE_S):
            await app.schema_manager.apply_schema_async()
            jobs: list[dict[str, Any]] = [{"order_id": n} for n in range(setting.n)]
            await task.batch_defer_async(*jobs)
            began_s = time.perf_counter()
            await app.run_worker_async(wait=False, concurrency=PROCRASTINATE_JOBS, install_signal_handlers=False)
            took_s = time.perf_counter() - began_s
            done = await app.job_manager.list_jobs_async(status="succeeded")
            assert len(list(done)) == setting.n
        return {"per_s": setting.n / took_s}

    return asyncio.run(sample())
