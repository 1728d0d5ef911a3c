"""The benchmark of cascades runs, at a size too small to mean anything."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.cascade import FIRST_TICKS, LIMIT, measure, measure_waits

ROOT = Path(__file__).parents[2]
TIMERS = 5_000


@pytest.mark.parametrize("name", FIRST_TICKS)
def test_every_timer_comes_out_in_calls_that_are_timed(name: str) -> None:
    fall = measure(name, TIMERS)
    assert fall.calls > TIMERS // LIMIT, "some calls only moved timers"
    assert fall.longest_ns > 0
    assert fall.ratio == fall.longest_ns / fall.sort_ns


def test_starts_of_another_thread_are_timed_while_timers_run() -> None:
    waits = measure_waits(TIMERS)
    assert waits.timers == TIMERS
    assert waits.p99_ms >= 0


def test_the_program_tells_every_ratio() -> None:
    command = [sys.executable, "-m", "bench.cascade", "--timers", str(TIMERS), "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert [fall["name"] for fall in json.loads(done.stdout)["falls"]] == list(FIRST_TICKS)
