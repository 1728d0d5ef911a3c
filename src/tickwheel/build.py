"""Which build is loaded: the compiled rooms, or the same files interpreted.

The wheels are plain Python that an installation with a C compiler turns into native modules, which
lie beside their sources. Python prefers the native one; `TICKWHEEL_PURE=1` makes it take the source:

    $ python -c "import tickwheel; print(tickwheel.COMPILED)"
    True
    $ TICKWHEEL_PURE=1 python -c "import tickwheel; print(tickwheel.COMPILED)"
    False
"""

import os
import sys
from collections.abc import Sequence
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, ModuleSpec, SourceFileLoader
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


PURE = os.environ.get("TICKWHEEL_PURE", "0") not in ("", "0")

if PURE:
    sys.meta_path.insert(0, SourceFinder)
