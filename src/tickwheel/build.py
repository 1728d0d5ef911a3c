"""Which build is loaded: the compiled rooms, or the same files interpreted.

The wheels are plain Python that an installation with a C compiler turns into native modules, which
lie beside their sources. Python prefers the native one; `TICKWHEEL_PURE=1` makes it take the source:

    $ python -c "import tickwheel; print(tickwheel.COMPILED)"
    True
    $ TICKWHEEL_PURE=1 python -c "import tickwheel; print(tickwheel.COMPILED)"
    False

Native modules keep their state once per process. Loaded into a second interpreter of it they would corrupt
the first one, so they are refused there with an `ImportError`.
"""

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import EXTENSION_SUFFIXES, SOURCE_SUFFIXES, FileFinder, ModuleSpec, SourceFileLoader
from pathlib import Path
from types import ModuleType

__all__ = ["PURE", "compiled"]


class SourceFinder:
    """Finds the modules of this package as sources only."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Look for a source file; None leaves the search to the finders behind."""
        if path is None or not name.startswith("tickwheel."):
            return None
        specs = (FileFinder(folder, (SourceFileLoader, SOURCE_SUFFIXES)).find_spec(name, target) for folder in path)
        return next((spec for spec in specs if spec is not None), None)


def compiled(package: ModuleType) -> bool:
    """Tell whether the modules of a package were loaded from native code."""
    files = [module.__file__ for name, module in sys.modules.items() if name.startswith(f"{package.__name__}.")]
    return any(not file.endswith(tuple(SOURCE_SUFFIXES)) for file in files if file)


def in_main_interpreter() -> bool:
    """Tell whether this is the interpreter that the process began with."""
    try:
        interpreters = import_module("_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters")
    except ImportError:  # this Python was built without others
        return True
    return bool(interpreters.get_current() == interpreters.get_main())


def native_at_hand() -> bool:
    """Tell whether the wheels were compiled when this package was installed."""
    return any(Path(__file__).with_name("wheels").joinpath(f"timer{suffix}").exists() for suffix in EXTENSION_SUFFIXES)


PURE = os.environ.get("TICKWHEEL_PURE", "0") not in ("", "0")

if PURE:
    sys.meta_path.insert(0, SourceFinder)
elif native_at_hand() and not in_main_interpreter():
    raise ImportError(
        "tickwheel's compiled modules cannot be loaded in a sub-interpreter; "
        "import tickwheel in the main interpreter, or set TICKWHEEL_PURE=1 to load its sources instead"
    )
