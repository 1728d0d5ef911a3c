"""Both builds of tickwheel in one process: the native one and the same files interpreted.

Python keeps one module a name, so the interpreted copy is imported while the native one is put
aside, and the names are given back afterwards. A missing native build is an error wherever a C
compiler is at hand, never a silent pass. Tests of packages that keep threads and loops of their own run in
two processes instead, the second with `TICKWHEEL_PURE=1` (see `make test-interpreted`).
"""

import importlib
import os
import shutil
import sys
import sysconfig
from dataclasses import dataclass
from types import ModuleType
from unittest import mock

ROOT_PACKAGE = "tickwheel"


@dataclass(frozen=True)
class Build:
    """One importable copy of the package."""

    name: str
    tickwheel: ModuleType
    wheels: ModuleType
    errors: ModuleType
    modules: dict[str, ModuleType]

    def __str__(self) -> str:
        return self.name


def _is_ours(name: str) -> bool:
    return name == ROOT_PACKAGE or name.startswith(f"{ROOT_PACKAGE}.")


def _import(name: str, environment: dict[str, str]) -> Build:
    aside = {key: sys.modules.pop(key) for key in list(sys.modules) if _is_ours(key)}
    finders = list(sys.meta_path)
    try:
        with mock.patch.dict(os.environ, environment):
            package = importlib.import_module(ROOT_PACKAGE)
        modules = {key: module for key, module in sys.modules.items() if _is_ours(key)}
    finally:
        sys.meta_path[:] = finders
        for key in [key for key in sys.modules if _is_ours(key)]:
            del sys.modules[key]
        sys.modules.update(aside)
    return Build(name, package, modules["tickwheel.wheels"], modules["tickwheel.errors"], modules)


def compiler_at_hand() -> bool:
    """Tell whether this machine could have built the native modules."""
    command = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"
    return shutil.which(command.split()[0]) is not None


PURE = _import("pure", {"TICKWHEEL_PURE": "1"})
BUILDS = [PURE]
if compiler_at_hand() and os.environ.get("TICKWHEEL_PURE", "0") in ("", "0"):
    # Native modules can be loaded once a process, so this one keeps the names.
    native = importlib.import_module(ROOT_PACKAGE)
    BUILDS.insert(0, Build("compiled", native, native.wheels, importlib.import_module("tickwheel.errors"), {}))
