"""Which tests `make test-quick` leaves out: those that need a server or a browser, and those marked `slow`.

Folders whose tests start servers, nodes or whole programs are left out as they are. For the rest it is read from the
imports: a test needs a server if its module, or a module that defines one of its fixtures, imports what
starts it, also by way of other modules of `tests`. The fixtures of `tests/conftest.py` are known by name, since that
module imports all of it.
"""

import ast
from functools import cache
from pathlib import Path
from typing import Final

import pytest

__all__ = ["imports_starter", "is_left_out"]

REPOSITORY: Final = Path(__file__).parent.parent
FOLDERS: Final = {"bench", "cluster", "dashboard", "examples", "external", "programs", "server"}
STARTERS: Final = (
    "playwright",
    "tests.faketime",
    "tickwheel.testing.etcd",
    "tickwheel.testing.postgres",
    "tickwheel.testing.redis",
)
FIXTURES: Final = {"etcd", "postgres", "redis_cluster", "redis_server"}


def is_left_out(item: pytest.Item) -> bool:
    """Tell whether a test is too much for a quick run."""
    return item.get_closest_marker("slow") is not None or _needs_server(item)


def _needs_server(item: pytest.Item) -> bool:
    """Tell whether a test needs a server or a browser."""
    if not isinstance(item, pytest.Function):
        return False
    if item.path.parent.name in FOLDERS or FIXTURES & set(item.fixturenames):
        return True
    definitions = item._fixtureinfo.name2fixturedefs.values()
    modules = {item.module.__name__, *(each.func.__module__ for several in definitions for each in several)}
    return any(imports_starter(module) for module in modules - {"tests.conftest"} if module.startswith("tests."))


@cache
def imports_starter(module: str) -> bool:
    """Tell whether a module of the tests imports what starts a server or a browser, directly or not."""
    imported = imports(module)
    ours = {name for name in imported if name.startswith("tests.") and name != module}
    return any(name.startswith(STARTERS) for name in imported) or any(imports_starter(name) for name in ours)


def imports(module: str) -> set[str]:
    """Return the modules that a module of the tests imports."""
    path = REPOSITORY.joinpath(*module.split(".")).with_suffix(".py")
    if not path.exists():  # a package, or a name in a module
        return set()
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found
