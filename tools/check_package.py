"""Builds sdist and wheel from a clean copy, installs each into an environment of its own, and runs tasks there.

    $ python tools/check_package.py

The wheel is built from the sdist, as `python -m build` and `pip install` do it with a C compiler. It is installed where
there is none. The sdist is installed where there is none as well, and has to work interpreted.
"""

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import venv
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

REPOSITORY = Path(__file__).parent.parent

# A timer fires, and a durable task on SQLite runs; every warning is an error.
PROGRAM = """
import sys, tempfile, threading
import tickwheel
from tickwheel import Scheduler, Timers

fired = threading.Event()
timers = Timers()
timers.after("10ms", fired.set)
assert fired.wait(30), "the timer did not fire"
timers.stop()

ran = threading.Event()
with tempfile.TemporaryDirectory() as folder:
    scheduler = Scheduler(f"sqlite:///{folder}/tasks.db")

    @scheduler.task("orders.cancel")
    def cancel_order(order_id: int) -> None:
        ran.set()

    with scheduler:
        scheduler.add("orders.cancel", {"order_id": 7}, delay="10ms")
        assert ran.wait(30), "the task did not run"
print("compiled" if tickwheel.COMPILED else "interpreted")
"""


class Wrong(Exception):
    """The package is not as it should be."""


def expect(holds: bool, otherwise: str) -> None:  # noqa: FBT001 - it is the subject
    """Raise unless something holds."""
    if not holds:
        raise Wrong(otherwise)


def run(*command: str | Path, folder: Path, environment: dict[str, str] | None = None) -> str:
    """Run a command and return what it prints; it has to succeed."""
    done = subprocess.run(  # noqa: S603 - our own commands
        list(map(str, command)), cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    expect(done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def copy_sources(target: Path) -> None:
    """Copy what is in the repository, or would be with the next commit: nothing that was built here."""
    listed = run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", folder=REPOSITORY)
    for name in filter(None, listed.split("\0")):
        if (REPOSITORY / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(REPOSITORY / name, target / name)


def check_contents(sdist: Path, wheel: Path, sources: Path) -> None:
    """Compare what was packed with what is in src."""
    files = {str(path.relative_to(sources)) for path in sources.rglob("*") if path.is_file()}
    modules = {name for name in files if name.startswith("tickwheel/")}
    with tarfile.open(sdist) as packed:
        names = {name.partition("/")[2] for name in packed.getnames()}
    expect({f"src/{name}" for name in files} <= names, f"not in the sdist: {sorted(files - names)}")
    expect(not any(name.startswith(("tests/", "build/")) for name in names), "tests or built files are in the sdist")
    with zipfile.ZipFile(wheel) as packed_wheel:
        names = set(packed_wheel.namelist())
    expect(modules <= names, f"not in the wheel: {sorted(modules - names)}")
    native = {name for name in names if name.endswith((".so", ".pyd"))}
    others = {name for name in names - modules - native if ".dist-info/" not in name}
    expect(any(name.startswith("tickwheel__mypyc.") for name in native), "the native library is not in the wheel")
    expect(not others, f"in the wheel, and does not belong there: {sorted(others)}")


def try_out(built: Path, folder: Path, build: str) -> None:
    """Install a package where no compiler can be found, and run the program."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    environment = {name: value for name, value in os.environ.items() if name not in {"CC", "PYTHONPATH", "VIRTUAL_ENV"}}
    environment["PATH"] = str(folder / "bin")
    run(
        python,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        built,
        folder=folder,
        environment=environment,
    )
    told = run(python, "-W", "error::RuntimeWarning", "-c", PROGRAM, folder=folder, environment=environment).strip()
    expect(told == build, f"{built.name} is {told}, and should be {build}")
    native = sorted(path.name for path in folder.glob("lib/python*/site-packages/tickwheel*/**/*.so"))
    expect(bool(native) == (build == "compiled"), f"{built.name} is {build}, and its native modules are {native}")
    expect(
        "tickwheel" in run(folder / "bin" / "tickwheel", "--help", folder=folder, environment=environment), "no help"
    )
    report(f"{built.name}: installed without a compiler, {told}: a timer fired, a task ran")


def check_old_python() -> None:
    """Have an interpreter that is too old refused by one line."""
    for version in ("3.10", "3.9", "3.8"):
        found = subprocess.run([REPOSITORY / "tools/find-python", version], capture_output=True, text=True, check=False)  # noqa: S603
        if found.returncode == 0:
            break
    else:
        report("no Python older than 3.11 is on this machine: its refusal is NOT TESTED")
        return
    with tempfile.TemporaryDirectory() as folder:
        make = ["make", "--silent", "run", f"PYTHON={found.stdout.strip()}", f"VENV={folder}/venv"]
        done = subprocess.run(make, cwd=REPOSITORY, capture_output=True, text=True, check=False)  # noqa: S603
    # What make says itself begins so, also if it was started by another make.
    said = [line for line in (done.stdout + done.stderr).splitlines() if not line.startswith(("make:", "make["))]
    expect(done.returncode != 0, f"Python {version} is not refused")
    expect(len(said) == 1 and "3.11" in said[0], f"Python {version} is refused by {len(said)} lines: {said}")
    report(f"Python {version} is refused: {said[0]}")


BEGAN = time.monotonic()


def report(line: str) -> None:
    """Print a line with the seconds that have passed."""
    print(f"{time.monotonic() - BEGAN:5.0f} s  {line}", flush=True)  # noqa: T201


def main() -> None:
    """Check everything, in a folder that is removed afterwards."""
    check_old_python()
    with tempfile.TemporaryDirectory(prefix="tickwheel-package-") as name:
        folder = Path(name)
        copy_sources(folder / "sources")
        run(sys.executable, "-m", "build", "--outdir", folder / "dist", folder=folder / "sources")
        [sdist], [wheel] = (folder / "dist").glob("*.tar.gz"), (folder / "dist").glob("*.whl")
        report(f"built {sdist.name} and {wheel.name}")
        check_contents(sdist, wheel, folder / "sources" / "src")
        with ThreadPoolExecutor() as pool:
            tries = [
                pool.submit(try_out, wheel, folder / "wheel", "compiled"),
                pool.submit(try_out, sdist, folder / "sdist", "interpreted"),
            ]
            for each in tries:
                each.result()


if __name__ == "__main__":
    try:
        main()
    except Wrong as wrong:
        sys.exit(f"the package is wrong: {wrong}")
