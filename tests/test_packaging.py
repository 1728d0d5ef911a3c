"""What is built from the sources: that the lists agree, and that what cannot be compiled is not built in part."""

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parent.parent


def hot_modules() -> set[str]:
    """Return the list HOT of setup.py."""
    for node in ast.parse((REPOSITORY / "setup.py").read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "HOT":
            return {f"src/tickwheel/{name}" for name in ast.literal_eval(node.value)}
    raise AssertionError("setup.py has no HOT")


def test_make_knows_what_is_compiled() -> None:
    command = ["make", "--silent", "--eval=show: ; @echo $(NATIVE)", "show"]
    names = set(subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout.split())
    assert hot_modules() <= names
    others = names - hot_modules()
    assert "src/native/trashcan.h" in others
    assert {Path(name).parent for name in others} == {Path("src/native"), Path("src/tickwheel/wheels")}


def test_every_module_that_is_compiled_exists() -> None:
    assert [name for name in hot_modules() if not (REPOSITORY / name).is_file()] == []


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The sources of the package, and nothing that was built from them."""
    ignored = shutil.ignore_patterns("*.so", "__pycache__", "*.egg-info")
    shutil.copytree(REPOSITORY / "src", tmp_path / "src", ignore=ignored)
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE", "MANIFEST.in", "CHANGELOG.md"):
        shutil.copy(REPOSITORY / name, tmp_path)
    return tmp_path


@pytest.mark.slow
def test_without_a_working_compiler_nothing_native_is_left(copy: Path) -> None:
    command = [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"]
    environment = {**os.environ, "CC": "false", "LDSHARED": "false", "TICKWHEEL_PURE": "0"}
    done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "tickwheel: not compiled, the interpreted modules are used instead" in done.stderr
    assert list(copy.rglob("*.so")) == []
    command = [sys.executable, "-W", "error", "-c", "import tickwheel; print(tickwheel.COMPILED)"]
    environment = {"PYTHONPATH": str(copy / "src")}
    shown = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, check=True)
    assert shown.stdout == "False\n"
