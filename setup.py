"""Compiles the wheels and what is called for every timer with mypyc; without a compiler all of it is interpreted.

Either all native modules are built or none: they are linked into one library, and do not work without it.
Everything else about the package is in pyproject.toml.
"""

import sys

# pip may come to this before it looks at `requires-python`, and then fails with something that explains nothing.
if sys.version_info < (3, 11):  # noqa: UP036 - it is read by any version
    sys.exit("tickwheel needs Python 3.11 or newer, and this is %d.%d" % sys.version_info[:2])  # noqa: UP031 - as above

import os
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import BaseError, CCompilerError

ROOT = Path(__file__).parent
PACKAGE = Path("src/tickwheel")

# Of the wheels everything, but for what users type against or run once, which gains nothing.
WHEELS_INTERPRETED = {"__init__.py", "__main__.py", "contract.py", "geometry.py"}

# Of the other packages only what is called for every timer, and for every task that is added. The Makefile reads this
# list: one name a line.
HOT = (
    "durations.py",
    "recipes/cache_core.py",
    "recipes/cache_forks.py",
    "recipes/cache_items.py",
    "recipes/cache_notices.py",
    "recipes/cache_store.py",
    "recipes/idle_touches.py",
    "scheduler/task_builder.py",
    "stores/validation.py",
    "tasks/fields.py",
    "timers/loop_timers.py",
    "timers/handle.py",
    "timers/scaled_clock.py",
    "timers/registry.py",
    "timers/timeouts.py",
    "timers/timers_core.py",
)

COMPILER_FLAGS = [
    "-include",
    str(ROOT / "src/native/trashcan.h"),
    "-fno-semantic-interposition",  # lets calls between our own functions be inlined
]

OFF = ("", "0", "false", "no", "off")  # what TICKWHEEL_PURE may be set to without effect; as in tickwheel/build.py

# Commands that only describe the package or collect its sources, for which nothing is translated.
DESCRIBING = {"egg_info", "dist_info", "sdist"}


def native_modules() -> list[Extension]:
    """Translate the wheels to C; an empty list if that is not wanted or not possible."""
    if os.environ.get("TICKWHEEL_PURE", "").strip().lower() not in OFF or DESCRIBING & set(sys.argv):
        return []
    try:
        from mypyc.build import mypycify  # noqa: PLC0415 - absent where only the pure build is wanted
    except ImportError:
        return []
    wheels = (path for path in (ROOT / PACKAGE / "wheels").glob("*.py") if path.name not in WHEELS_INTERPRETED)
    sources = sorted(str(path.relative_to(ROOT)) for path in (*wheels, *(ROOT / PACKAGE / name for name in HOT)))
    # How strictly it is typed is checked by `make types`, where everything that it imports is at hand.
    checks = ["--config-file=", "--follow-imports=silent", "--ignore-missing-imports"]
    modules: list[Extension] = mypycify([*checks, *sources], opt_level="3", group_name="tickwheel")
    for module in modules:
        if module.include_dirs:  # all the code is in this one, the others only point at it
            module.extra_compile_args = [*module.extra_compile_args, *COMPILER_FLAGS]
    return modules


class BuildAllOrNone(build_ext):  # type: ignore[misc]
    """Builds every native module, or removes all of them if one cannot be built."""

    extensions: list[Extension]

    def run(self) -> None:
        """Build; a missing compiler or header is a notice, not a failure."""
        try:
            super().run()
        except (BaseError, CCompilerError, OSError) as error:
            self.discard()
            print(f"tickwheel: not compiled, the interpreted modules are used instead: {error}", file=sys.stderr)  # noqa: T201

    def discard(self) -> None:
        """Remove what was built, here and beside the sources, and forget that it was wanted."""
        for extension in self.extensions:
            name = self.get_ext_filename(self.get_ext_fullname(extension.name))
            for folder in (Path(self.build_lib), ROOT / "src") if self.inplace else (Path(self.build_lib),):
                (folder / name).unlink(missing_ok=True)
        self.extensions = self.distribution.ext_modules = []


setup(ext_modules=native_modules(), cmdclass={"build_ext": BuildAllOrNone})
