"""Which build is loaded, and what the package shows to the world."""

import importlib
import pkgutil
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

import tickwheel
from tests.builds import BUILDS, Build, compiler_at_hand

PACKAGES = [
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


@pytest.mark.parametrize(
    ("setting", "compiled"),
    [
        *((setting, False) for setting in ("1", "true", "yes", "on")),
        *((setting, compiler_at_hand()) for setting in ("0", "", "false", "False", "no", "OFF", " 0 ")),
    ],
)
def test_tickwheel_pure_chooses_the_build(setting: str, compiled: bool) -> None:
    command = [sys.executable, "-c", "import tickwheel; print(tickwheel.COMPILED)"]
    done = subprocess.run(command, env={"TICKWHEEL_PURE": setting}, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(compiled)


SHOW = "import tickwheel; from tickwheel import Timers; print(tickwheel.COMPILED)"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the installed package with its native modules, as far as there are any."""
    assert tickwheel.__file__ is not None
    package = Path(tickwheel.__file__).parent
    shutil.copytree(package, tmp_path / "tickwheel", ignore=shutil.ignore_patterns("__pycache__", "dashboard"))
    for library in package.parent.glob("tickwheel__mypyc.*"):
        shutil.copy(library, tmp_path)
    return tmp_path


def import_copy(
    folder: Path, *options: str, script: str = SHOW, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Import a copy in a process of its own."""
    command = [sys.executable, *options, "-c", script]
    env = {"PYTHONPATH": str(folder), **environment}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)


def without_library(folder: Path) -> None:
    for library in folder.glob("tickwheel__mypyc.*"):
        library.unlink()
    native_file(folder, "durations").touch()


def without_library_and_a_module(folder: Path) -> None:
    without_library(folder)
    native_file(folder, "durations").unlink()
    native_file(folder, "wheels/timer").touch()


def with_broken_library(folder: Path) -> None:
    (folder / f"tickwheel__mypyc{EXTENSION_SUFFIXES[0]}").write_bytes(b"not a library")


def with_a_folder_for_the_library(folder: Path) -> None:
    library = folder / f"tickwheel__mypyc{EXTENSION_SUFFIXES[0]}"
    library.unlink(missing_ok=True)
    library.mkdir()


def without_a_module(folder: Path) -> None:
    for path in folder.glob("tickwheel/wheels/timer.*"):
        if path.suffix != ".py":
            path.unlink()


def with_an_empty_module(folder: Path) -> None:
    for path in folder.glob("tickwheel/wheels/timer.*"):
        if path.suffix != ".py":
            path.write_bytes(b"")


def native_file(folder: Path, module: str) -> Path:
    return folder / f"tickwheel/{module}{EXTENSION_SUFFIXES[0]}"


def with_a_broken_module(folder: Path) -> None:
    native_file(folder, "durations").write_bytes(b"not a module")


def with_a_broken_module_that_is_imported_later(folder: Path) -> None:
    native_file(folder, "tasks/fields").write_bytes(b"not a module")


def with_a_module_of_zeros(folder: Path) -> None:
    file = native_file(folder, "wheels/scheme")
    file.write_bytes(bytes(file.stat().st_size))


def with_a_module_without_its_beginning(folder: Path) -> None:
    file = native_file(folder, "durations")
    file.write_bytes(bytes(1000) + file.read_bytes()[1000:])


def with_the_file_of_another_module(folder: Path) -> None:
    shutil.copy(native_file(folder, "recipes/cache_core"), native_file(folder, "durations"))


def with_a_folder_for_a_module(folder: Path) -> None:
    native_file(folder, "durations").unlink()
    native_file(folder, "durations").mkdir()


BREAKAGES = [
    without_library,
    without_library_and_a_module,
    with_broken_library,
    with_a_folder_for_the_library,
    *(
        [
            without_a_module,
            with_an_empty_module,
            with_a_broken_module,
            with_a_broken_module_that_is_imported_later,
            with_a_module_of_zeros,
            with_a_module_without_its_beginning,
            with_the_file_of_another_module,
            with_a_folder_for_a_module,
        ]
        if compiler_at_hand()
        else []
    ),
]


@pytest.mark.parametrize("damage", BREAKAGES)
def test_a_broken_native_build_falls_back_to_the_sources(copy: Path, damage: Callable[[Path], None]) -> None:
    damage(copy)
    done = import_copy(copy)
    assert (done.returncode, done.stdout) == (0, "False\n")
    assert done.stderr.count("RuntimeWarning") == 1
    assert "the compiled modules of tickwheel cannot be loaded" in done.stderr
    assert "TICKWHEEL_PURE=1" in done.stderr


@pytest.mark.parametrize("damage", BREAKAGES)
def test_tickwheel_pure_silences_the_warning(copy: Path, damage: Callable[[Path], None]) -> None:
    damage(copy)
    done = import_copy(copy, "-W", "error", TICKWHEEL_PURE="1")
    assert (done.returncode, done.stdout, done.stderr) == (0, "False\n", "")


def test_an_intact_copy_gives_no_warning(copy: Path) -> None:
    done = import_copy(copy, "-W", "error")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{compiler_at_hand()}\n", "")


def test_native_modules_of_another_python_give_no_warning(copy: Path) -> None:
    for file in [*copy.glob("tickwheel__mypyc.*"), *copy.glob("tickwheel/**/*.so"), *copy.glob("tickwheel/**/*.pyd")]:
        file.unlink()
    (copy / "tickwheel/durations.cpython-30-another.so").touch()
    done = import_copy(copy, "-W", "error")
    assert (done.returncode, done.stdout, done.stderr) == (0, "False\n", "")


@pytest.mark.parametrize("damage", [without_library_and_a_module, with_broken_library, with_a_folder_for_the_library])
def test_the_library_of_another_installation_is_not_used(
    copy: Path, tmp_path_factory: pytest.TempPathFactory, damage: Callable[[Path], None]
) -> None:
    other = tmp_path_factory.mktemp("other")
    for library in copy.glob("tickwheel__mypyc.*"):
        shutil.copy(library, other)
    damage(copy)
    done = import_copy(copy, PYTHONPATH=f"{copy}:{other}")
    assert (done.returncode, done.stdout) == (0, "False\n")
    assert done.stderr.count("RuntimeWarning") == 1


def test_another_module_of_the_librarys_name_is_passed_over(
    copy: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = tmp_path_factory.mktemp("other")
    (other / "tickwheel__mypyc.py").touch()
    done = import_copy(copy, "-P", "-W", "error", PYTHONPATH=f"{other}:{copy}")  # -P: not from this folder first
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{compiler_at_hand()}\n", "")


@pytest.mark.skipif(not compiler_at_hand(), reason="without native modules there is no library to load")
def test_a_library_that_was_loaded_from_elsewhere_falls_back_to_the_sources(copy: Path) -> None:
    (copy / "sitecustomize.py").write_text(
        "import sys, types; sys.modules['tickwheel__mypyc'] = types.ModuleType('other')"
    )
    done = import_copy(copy)
    assert (done.returncode, done.stdout) == (0, "False\n")
    assert "another tickwheel__mypyc is loaded" in done.stderr


# The second leaves the library where it is.
PURGES = ["name.startswith('tickwheel')", "name.split('.')[0] == 'tickwheel'"]
PURGE_AND_USE = """
import os, sys, tickwheel
for name in [name for name in sys.modules if {purged}]:
    del sys.modules[name]
{meanwhile}
import tickwheel
tickwheel.Timers().after(1, print)
print(tickwheel.COMPILED)
"""


@pytest.mark.skipif(not compiler_at_hand(), reason="interpreted modules can be imported any number of times")
@pytest.mark.parametrize("purged", PURGES)
def test_native_modules_are_not_loaded_a_second_time(copy: Path, purged: str) -> None:
    done = import_copy(copy, script=PURGE_AND_USE.format(purged=purged, meanwhile=""))
    assert (done.returncode, done.stdout) == (1, "")
    assert "ImportError: tickwheel's compiled modules can be loaded once per process" in done.stderr
    assert "set TICKWHEEL_PURE=1" in done.stderr


@pytest.mark.parametrize("purged", PURGES)
@pytest.mark.parametrize("before", ["0", "1"])
def test_the_sources_can_be_imported_after_a_purge(copy: Path, before: str, purged: str) -> None:
    script = PURGE_AND_USE.format(purged=purged, meanwhile="os.environ['TICKWHEEL_PURE'] = '1'")
    done = import_copy(copy, script=script, TICKWHEEL_PURE=before)
    assert (done.returncode, done.stdout, done.stderr) == (0, "False\n", "")


def test_the_choice_of_the_build_can_be_reloaded(copy: Path) -> None:
    script = "import importlib, tickwheel; importlib.reload(tickwheel.build); importlib.reload(tickwheel)"
    done = import_copy(copy, script=f"{script}; tickwheel.Timers().after(1, print); print(tickwheel.COMPILED)")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{compiler_at_hand()}\n", "")


def test_aio_is_imported_when_it_is_used() -> None:
    script = "import sys, tickwheel; print('tickwheel.aio' in sys.modules, tickwheel.aio.__name__)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "False tickwheel.aio\n"


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_of_a_package_exists(package: str) -> None:
    module = importlib.import_module(package)
    assert len(set(module.__all__)) == len(module.__all__)
    for name in module.__all__:
        assert hasattr(module, name), name


def test_every_public_name_is_defined_in_one_module_of_its_package() -> None:
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
