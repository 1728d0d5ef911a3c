"""Which build is loaded, and what the package shows to the world."""

import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import tickwheel
from tests.builds import BUILDS, Build, compiler_at_hand

ROOMS = [
    "tickwheel",
    "tickwheel.aio",
    "tickwheel.cli",
    "tickwheel.clock",
    "tickwheel.durations",
    "tickwheel.errors",
    "tickwheel.observe",
    "tickwheel.recipes",
    "tickwheel.scheduler",
    "tickwheel.stores",
    "tickwheel.tasks",
    "tickwheel.testing",
    "tickwheel.timers",
    "tickwheel.wheels",
    "tickwheel.workers",
]


def test_the_native_build_is_there_wherever_it_could_be_built() -> None:
    assert compiler_at_hand() == tickwheel.COMPILED


def test_each_build_is_what_it_says(build: Build) -> None:
    assert (build.name == "compiled") == build.tickwheel.COMPILED
    assert build.wheels.Timer.__module__ == "tickwheel.wheels.timer"


def test_builds_share_no_classes() -> None:
    timers = {build.wheels.Timer for build in BUILDS}
    assert len(timers) == len(BUILDS)


@pytest.mark.parametrize(("setting", "compiled"), [("1", False), ("0", compiler_at_hand()), ("", compiler_at_hand())])
def test_tickwheel_pure_chooses_the_build(setting: str, compiled: bool) -> None:
    command = [sys.executable, "-c", "import tickwheel; print(tickwheel.COMPILED)"]
    done = subprocess.run(command, env={"TICKWHEEL_PURE": setting}, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(compiled)


@pytest.mark.parametrize("room", ROOMS)
def test_every_public_name_of_a_room_exists(room: str) -> None:
    module = importlib.import_module(room)
    assert len(set(module.__all__)) == len(module.__all__)
    for name in module.__all__:
        assert hasattr(module, name), name


def test_every_public_name_is_defined_in_one_module_of_its_room() -> None:
    package = importlib.import_module("tickwheel.wheels")
    homes: dict[str, list[str]] = {}
    for info in pkgutil.iter_modules(package.__path__):
        if info.name != "__main__":
            for name in importlib.import_module(f"tickwheel.wheels.{info.name}").__all__:
                homes.setdefault(name, []).append(info.name)
    assert {name: modules for name, modules in homes.items() if len(modules) != 1} == {}
    assert set(package.__all__) <= set(homes)


def test_the_package_says_that_it_is_typed() -> None:
    assert tickwheel.__file__ is not None
    assert (Path(tickwheel.__file__).parent / "py.typed").exists()
