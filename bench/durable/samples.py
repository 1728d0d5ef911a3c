"""What is measured, of whom, and of how many tasks.

$ python -m bench.durable.samples '{"name": "add_many, huey", "folder": "/tmp/x", "n": 100, ...}'
{"per_s": 1234.5}
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.durable import ours, peers
from bench.durable.setting import Figures, Setting

__all__ = ["GROUPS", "SAMPLES", "SAMPLE_S_MAX", "Sample", "samples_of"]

SAMPLE_S_MAX = 600  # several times what the longest takes, filling a file; then its process is ended


@dataclass(frozen=True, slots=True)
class Sample:
    """One thing to measure."""

    group: str
    name: str
    take: Callable[[Setting], Figures]
    n: int
    quick_n: int
    shared: bool = False  # whether all its samples use one file, filled with n tasks
    only: str = ""  # the store that it is about, if there is one
    but_for: str = ""  # a store that it is too much for
    package: str = ""  # whose it is, if it is not ours
    flushed: bool = False  # whether a Redis server has to write to the disk before it answers; otherwise each second

    def size(self, *, quick: bool, tasks_max: int) -> int:
        """Return how many tasks, or tasks a second, it is about."""
        return min(self.quick_n if quick else self.n, tasks_max)


_ALL = (
    Sample("add_many", "add_many, tickwheel", ours.add_many, 20_000, 5_000),
    Sample("add_many", "add_many, bare apsw", peers.apsw_add, 20_000, 5_000, package="apsw"),
    Sample("add_many", "add_many, APScheduler 3", peers.apscheduler_add, 300, 100, package="apscheduler"),
    Sample("add_many", "add_many, APScheduler 3 with WAL", peers.apscheduler_add_wal, 300, 100, package="apscheduler"),
    Sample("add_many", "add_many, huey", peers.huey_add, 1_000, 300, package="huey"),
    Sample("group_commit", "add, 1 caller", ours.add_alone, 500, 200),
    Sample("group_commit", f"add, {ours.CALLERS} callers", ours.add_together, 6_400, 1_280),
    Sample("fire", "fire, tickwheel", ours.fire, 20_000, 5_000),
    Sample("fire", "fire, APScheduler 3 on the loop", peers.apscheduler_fire_async, 300, 100, package="apscheduler"),
    Sample("fire", "fire, APScheduler 3 on threads", peers.apscheduler_fire_threads, 300, 100, package="apscheduler"),
    Sample("fire", "fire, arq", peers.arq_fire, 2_000, 500, only="redis", package="arq"),
    Sample(
        "fire", "fire, procrastinate", peers.procrastinate_fire, 1_000, 200, only="postgres", package="procrastinate"
    ),
    Sample("add_many", "add_many, flushed", ours.add_many, 20_000, 5_000, only="redis", flushed=True),
    Sample("group_commit", "add, 1 caller, flushed", ours.add_alone, 500, 200, only="redis", flushed=True),
    Sample(
        "group_commit",
        f"add, {ours.CALLERS} callers, flushed",
        ours.add_together,
        6_400,
        1_280,
        only="redis",
        flushed=True,
    ),
    Sample("fire", "fire, flushed", ours.fire, 20_000, 5_000, only="redis", flushed=True),
    Sample("far", "far, none", ours.far, 0, 0, shared=True),
    Sample("far", "far, few", ours.far, 1_000, 1_000, shared=True),
    Sample("far", "far, many", ours.far, 1_000_000, 100_000, shared=True),
    Sample("lateness", "lateness, 1,000 a second", ours.lateness, 1_000, 1_000),
    Sample("lateness", "lateness, 5,000 a second", ours.lateness, 5_000, 5_000, but_for="etcd"),  # all that it can do
)
SAMPLES = {sample.name: sample for sample in _ALL}
GROUPS = tuple(dict.fromkeys(sample.group for sample in _ALL))


def samples_of(store: str) -> list[Sample]:
    """Return what is taken on a store: if it is not a file, ours, not among a million, and what is about it alone."""

    def fits(sample: Sample) -> bool:
        if sample.only or sample.but_for == store:
            return sample.only == store
        return store == "sqlite" or (sample.take.__module__ == ours.__name__ and not sample.shared)

    return list(filter(fits, _ALL))


def main(argument: str) -> None:
    """Take a sample in this process, which ends with it."""
    signal.alarm(SAMPLE_S_MAX)  # also when whoever started it is gone
    given = json.loads(argument)
    name = given.pop("name")
    setting = Setting(**{**given, "folder": Path(given["folder"])})
    take = ours.fill_far if name == "fill" else SAMPLES[name].take
    print(json.dumps(take(setting)), flush=True)
    os._exit(0)  # the folder is thrown away; nothing has to be taken leave of


if __name__ == "__main__":
    # Jobs and handlers are found by the name of their module, and that is not __main__.
    from bench.durable.samples import main as take_sample

    take_sample(sys.argv[1])
