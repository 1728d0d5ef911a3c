"""A short campaign on each store; `make chaos` has longer ones."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster import chaos
from tests.cluster.chaos import Plan, wage
from tests.cluster.nodes import REPOSITORY
from tests.cluster.places import PLACES


@pytest.mark.parametrize("store", PLACES)
def test_every_promise_is_kept_whatever_goes_wrong(store: str, tmp_path: Path) -> None:
    # By this seed a node is killed first, and then the server stopped, if there is one.
    verdict, suffered = asyncio.run(wage(Plan(store, seconds=5.0, seed=102), tmp_path))
    assert verdict.good, str(verdict)
    assert verdict.tasks > 100
    assert suffered["kill"]


def test_the_clock_of_a_file_is_set_forward_and_back(tmp_path: Path) -> None:
    asked = ["--store", "sqlite", "--seconds", "1", "--seed", "1", "--lease-ms", "500", "--fault", "step"]
    command = [sys.executable, "-m", "tests.cluster.chaos", *asked, "--json"]
    # A process of its own: it is started with another clock, and so are its nodes.
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    ended = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    [told] = json.loads(ended.stdout)
    assert told["faults"]["step"]
    assert told["early"] == []


def test_a_campaign_is_told_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert chaos.main(["--store", "sqlite", "--seconds", "1", "--seed", "7", "--fault", "kill", "--json"]) == 0
    printed = capsys.readouterr()
    assert printed.err.startswith("seed 7\n")
    [told] = json.loads(printed.out)
    assert (told["store"], told["seed"], told["good"], told["missed"]) == ("sqlite", 7, True, [])
    kills = told["faults"]["kill"]
    assert told["faults"] == {"kill": kills, "killed": kills}
