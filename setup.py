"""Compiles the wheels and what is called for every timer with mypyc; without a compiler all of it is interpreted.

Everything else about the package is in pyproject.toml.
"""

import os
from pathlib import Path

from setuptools import Extension, setup

ROOT = Path(__file__).parent
PACKAGE = Path("src/tickwheel")

# Of the wheels everything, but for what users type against or run once, which gains nothing.
WHEELS_INTERPRETED = {"__init__.py", "__main__.py", "contract.py", "geometry.py"}

# Of the other rooms only what is called for every timer, and for every task that is added.
HOT = (
    "durations.py",
    "recipes/cache_core.py",
    "recipes/cache_items.py",
    "recipes/cache_store.py",
    "recipes/idle_touches.py",
    "scheduler/draft.py",
    "stores/bounds.py",
    "timers/loop_timers.py",
    "timers/handle.py",
    "timers/scaled_clock.py",
    "timers/registry.py",
    "timers/timeouts.py",
)

COMPILER_FLAGS = [
    "-include",
    str(ROOT / "src/native/trashcan.h"),
    "-fno-semantic-interposition",  # lets calls between our own functions be inlined
]


def native_modules() -> list[Extension]:
    """Translate the wheels to C; an empty list if that is not wanted or not possible."""
    if os.environ.get("TICKWHEEL_PURE", "0") not in ("", "0"):
        return []
    try:
        from mypyc.build import mypycify  # noqa: PLC0415 - absent where only the pure build is wanted
    except ImportError:
        return []
    wheels = (path for path in (ROOT / PACKAGE / "wheels").glob("*.py") if path.name not in WHEELS_INTERPRETED)
    sources = sorted(str(path.relative_to(ROOT)) for path in (*wheels, *(ROOT / PACKAGE / name for name in HOT)))
    # How strictly it is typed is checked by `make types`, where everything that it imports is at hand.
    checks = ["--config-file=", "--follow-imports=silent", "--ignore-missing-imports"]
    modules = mypycify([*checks, *sources], opt_level="3", group_name="tickwheel")
    for module in modules:
        module.optional = True  # a missing compiler or header is a notice, not a failure
        if module.include_dirs:  # all the code is in this one, the others only point at it
            module.extra_compile_args = [*module.extra_compile_args, *COMPILER_FLAGS]
    return modules


setup(ext_modules=native_modules())
