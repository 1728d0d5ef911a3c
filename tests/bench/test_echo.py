"""The echo servers run, with a few connections; how fast is not asserted anywhere."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.echo import VARIANTS, read_options

ROOT = Path(__file__).parents[2]
ECHO = (sys.executable, "-m", "bench.echo")


def run_echo(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)


def test_every_server_has_a_positive_figure() -> None:
    done = run_echo(*ECHO, "--connections", "110", "--rounds", "2", "--repeats", "2", "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    figures = {figure["variant"]: figure for figure in result["figures"]}
    assert list(figures) == list(VARIANTS)
    for figure in figures.values():
        assert len(figure["samples_us"]) == 2
        assert min(figure["samples_us"]) > 0
    first, none = figures["asyncio loop, asyncio.timeout"], figures["asyncio loop, no timeout"]
    assert first["ratio"] == 1
    assert none["timeout_us"] == 0
    assert first["timeout_us"] == first["median_us"] - none["median_us"]
    assert f"server {2 * len(VARIANTS)} of {2 * len(VARIANTS)}" in done.stderr


def test_table_names_every_server() -> None:
    done = run_echo(*ECHO, "--connections", "1", "--rounds", "1", "--repeats", "1")
    assert done.returncode == 0, done.stderr
    assert all(name in done.stdout for name in VARIANTS)


def test_more_connections_than_files_are_refused_with_a_message() -> None:
    done = run_echo("/bin/sh", "-c", f"ulimit -n 128 && exec {' '.join(ECHO)} --connections 100")
    assert done.returncode == 1
    assert "100 connections need 164 open files, and 128 are allowed" in done.stderr


@pytest.mark.parametrize("option", ["--connections", "--rounds", "--repeats"])
@pytest.mark.parametrize("number", ["0", "-1", "many", "1000000"])
def test_number_out_of_bounds_is_refused_with_a_message(
    option: str, number: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        read_options([f"{option}={number}"])
    assert ended.value.code == 2
    assert "a number from 1 to" in capsys.readouterr().err
