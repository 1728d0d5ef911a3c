"""The lists of what is compiled agree; `make package` builds, installs and tries out the package itself."""

import ast
import subprocess
import sys
from pathlib import Path

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


def test_a_python_that_is_too_old_is_refused_in_one_line_by_what_pip_runs() -> None:
    script = "import sys; sys.version_info = (3, 10, 13, 'final', 0); exec(open('setup.py').read())"
    done = subprocess.run([sys.executable, "-c", script], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "tickwheel needs Python 3.11 or newer, and this is 3.10\n"
