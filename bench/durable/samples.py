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

__all__ = ["GROUPS", "SAMPLES", "SAMPLES_ON", "SAMPLE_S_MAX", "Sample"]

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

    def size(self, *, quick: bool) -> int:
        """Return how many tasks, or tasks a second, it is about."""
        return self.quick_n if quick else self.n


_ALL = (
    Sample("add_many", "add_many, tickwheel", ours.add_many, 20_000, 5_000),
    Sample("add_many", "add_many, bare apsw", peers.apsw_add, 20_000, 5_000),
    Sample("add_many", "add_many, APScheduler 3", peers.apscheduler_add, 300, 100),
    Sample("add_many", "add_many, APScheduler 3 with WAL", peers.apscheduler_add_wal, 300, 100),
    Sample("add_many", "add_many, huey", peers.huey_add, 1_000, 300),
    Sample("group_commit", "add, 1 caller", ours.add_alone, 500, 200),
    Sample("group_commit", f"add, {ours.CALLERS} callers", ours.add_together, 6_400, 1_280),
    Sample("fire", "fire, tickwheel", ours.fire, 20_000, 5_000),
    Sample("fire", "fire, APScheduler 3 on the loop", peers.apscheduler_fire_async, 300, 100),
    Sample("fire", "fire, APScheduler 3 on threads", peers.apscheduler_fire_threads, 300, 100),
    Sample("far", "far, none", ours.far, 0, 0, shared=True),
    Sample("far", "far, few", ours.far, 1_000, 1_000, shared=True),
    Sample("far", "far, many", ours.far, 1_000_000, 100_000, shared=True),
    Sample("lateness", "lateness, 1,000 a second", ours.lateness, 1_000, 1_000),
    Sample("lateness", "lateness, 5,000 a second", ours.lateness, 5_000, 5_000),
)
SAMPLES = {sample.name: sample for sample in _ALL}
# What is taken on a store that is not a file: ours alone, and not among a million.
_SHARED = tuple(sample.name for sample in _ALL if sample.take.__module__ == ours.__name__ and sample.group != "far")
SAMPLES_ON = {
    "sqlite": tuple(SAMPLES),
    "postgres": _SHARED,
    "etcd": tuple(name for name in _SHARED if name != "lateness, 5,000 a second"),  # which is all that it can do
}
GROUPS = tuple(dict.fromkeys(sample.group for sample in _ALL))


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
