"""`python -m tickwheel.wheels` turns a wheel that people can watch."""

import subprocess
import sys

import pytest


def watch(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tickwheel.wheels", *options]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_it_shows_dials_hand_and_cascades() -> None:
    done = watch("--ticks", "60", "--seed", "1")
    assert done.returncode == 0, done.stderr
    for words in (
        "fast",
        "middle",
        "slow",
        "tick 60",
        "pending",
        "moves down: middle dial, slot 3 → fast dial, slot 3",
    ):
        assert words in done.stdout


def test_the_same_seed_tells_the_same_story() -> None:
    assert watch("--ticks", "50", "--seed", "7").stdout == watch("--ticks", "50", "--seed", "7").stdout
    assert watch("--ticks", "50", "--seed", "7").stdout != watch("--ticks", "50", "--seed", "8").stdout


def test_it_ends_by_itself_where_there_is_no_terminal() -> None:
    assert "tick 300" in watch().stdout


@pytest.mark.parametrize("options", [["--ticks", "-1"], ["--speed", "fast"], ["--seed", "1.5"]])
def test_bad_options_are_refused_with_words(options: list[str]) -> None:
    done = watch(*options)
    assert done.returncode == 2
    assert "is not a whole number of at least 0" in done.stderr
