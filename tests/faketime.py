"""Processes whose wall clock is wrong, by libfaketime; the clock that only goes forward is left alone."""

from pathlib import Path

__all__ = ["clock_off_by"]


def clock_off_by(seconds: int) -> dict[str, str]:
    """Return the environment of a process whose clock is off."""
    found = sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))
    assert found, "libfaketime is not on this machine: install the package libfaketime"
    return {"LD_PRELOAD": str(found[0]), "FAKETIME": f"{seconds:+d}s", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
