"""Processes whose wall clock is wrong, or is set while they run; the clock that only goes forward is left alone."""

import os
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Final

__all__ = ["OFFSET", "clock_off_by", "settable_clock", "step_clock"]

OFFSET: Final = "FAKETIME_FILE"  # names the file that says how far a clock is off, in nanoseconds
SOURCE: Final = Path(__file__).with_suffix(".c")


def clock_off_by(seconds: int) -> dict[str, str]:
    """Return the environment of a process whose clock is off."""
    return settable_clock(folder() / f"{seconds:+d}", seconds)


def settable_clock(file: Path, seconds: float = 0.0) -> dict[str, str]:
    """Return the environment of processes whose clocks are all as far off as a file says, at each moment."""
    write(file, seconds)
    return {"LD_PRELOAD": str(library()), OFFSET: str(file)}


def step_clock(seconds: float) -> bool:
    """Set the clock of this process and of those like it, so far off the real one; False if it cannot be set."""
    path = os.environ.get(OFFSET)
    if path is None:
        return False
    write(Path(path), seconds)
    return True


def write(file: Path, seconds: float) -> None:
    # In place, since processes have it mapped; eight aligned bytes are written at once.
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT)
    try:
        os.pwrite(descriptor, int(seconds * 1e9).to_bytes(8, "little", signed=True), 0)
    finally:
        os.close(descriptor)


@cache
def library() -> Path:
    """Compile what is loaded before the C library."""
    made = folder() / "faketime.so"
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", str(made), str(SOURCE)], check=True)
    return made


@cache
def folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="faketime-"))
