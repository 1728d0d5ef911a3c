"""The table of allowed imports holds, and a violation is found."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parent.parent


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run import-linter on a copy of the sources."""
    environment = {**os.environ, "PYTHONPATH": f"{folder / 'src'}{os.pathsep}{folder}"}
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for name in ("src", "tools"):
        shutil.copytree(REPOSITORY / name, tmp_path / name, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    shutil.copy(REPOSITORY / "pyproject.toml", tmp_path)
    return tmp_path


def test_packages_import_only_what_the_table_allows(copy: Path) -> None:
    done = lint_imports(copy)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("module", "planted", "words"),
    [
        ("wheels/timer.py", "import tickwheel.build", "wheels may not import build"),
        ("errors.py", "from tickwheel.wheels import timer", "errors may not import wheels"),
        ("wheels/level.py", "import tickwheel", "imports the root of tickwheel"),
    ],
)
def test_a_planted_import_is_found(copy: Path, module: str, planted: str, words: str) -> None:
    path = copy / "src/tickwheel" / module
    path.write_text(f"{path.read_text()}\n{planted}\n")
    done = lint_imports(copy)
    assert done.returncode == 1
    assert words in " ".join(done.stdout.split())


def test_a_package_that_is_not_in_the_table_is_found(copy: Path) -> None:
    (copy / "src/tickwheel/utils.py").write_text("")
    done = lint_imports(copy)
    assert done.returncode == 1
    assert "utils is not in the table of imports" in done.stdout
