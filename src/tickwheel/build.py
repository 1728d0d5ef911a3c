"""Which build is loaded: the compiled modules, or the same files interpreted.

An installation with a C compiler turns the wheels, and what else is called for every timer, into native modules, which
lie beside their sources. Python prefers the native one; `TICKWHEEL_PURE=1` makes it take the source:

    $ python -c "import tickwheel; print(tickwheel.COMPILED)"
    True
    $ TICKWHEEL_PURE=1 python -c "import tickwheel; print(tickwheel.COMPILED)"
    False

If native modules are there but cannot be loaded, the sources are used as well, with a `RuntimeWarning`. The code of
all of them is in one library, so they work together or not at all. The library is loaded to find out, from beside this
package: what else is on the path by its name may be that of another version. The modules, which only point at it, are
read: loading them would import what they import, whether it is used or not.

Native modules keep their state once per process. Loaded into a second interpreter of it they would corrupt
the first one, so they are refused there with an `ImportError`. So they are if they were removed from `sys.modules` and
are imported again: they would go on with the classes of the first import, and the sources beside them with new ones.
"""

import os
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import (
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    ModuleSpec,
    SourceFileLoader,
)
from importlib.util import module_from_spec
from pathlib import Path
from types import ModuleType

__all__ = ["PURE", "compiled"]

LIBRARY = "tickwheel__mypyc"
USERS = "_tickwheel_users"  # in sys, which outlasts what is in sys.modules: by library, the globals of who uses it
INITIALIZER = "init_"  # what mypyc puts before the name of each module in the library, with ___ for a dot
OFF = ("", "0", "false", "no", "off")  # what TICKWHEEL_PURE may be set to without effect; as in setup.py
HEADER_BYTES = 16  # format, processor and word size, in files of Linux and macOS; on Windows, the format


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


def native_files(module: Path) -> list[Path]:
    """Return the native files of a module that this interpreter would load."""
    return [file for suffix in EXTENSION_SUFFIXES if (file := module.with_name(module.name + suffix)).exists()]


def has_native_modules(package: Path) -> bool:
    """Tell whether this interpreter would load a native module of a package, or of one right below it."""
    files = (file for pattern in ("*.*", "*/*.*") for file in package.glob(pattern))
    return any("".join(file.suffixes) in EXTENSION_SUFFIXES for file in files)


def points_at(initializer: str, module: Path, header: bytes) -> bool:
    """Tell whether the file of a native module is of the library's format and names its own initializer there.

    One that was not written whole, as on a full disk, or that is another module's, does not.
    """
    try:
        content = native_files(module)[0].read_bytes()
    except (IndexError, OSError):
        return False
    return content.startswith(header) and initializer.encode() + b"\0" in content


def in_main_interpreter() -> bool:
    """Tell whether this is the interpreter that the process began with."""
    try:
        interpreters = import_module("_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters")
    except ImportError:  # this Python was built without others
        return True
    return bool(interpreters.get_current() == interpreters.get_main())


def load_library(file: Path) -> ModuleType:
    """Load the library from its file, unless it was; raise ImportError if another one was loaded by its name."""
    loaded = sys.modules.get(LIBRARY)
    if loaded is not None:
        origin = getattr(loaded, "__file__", None)
        if origin is None or Path(origin).resolve() != file.resolve():
            raise ImportError(f"another {LIBRARY} is loaded, from {origin}")
        return loaded
    loader = ExtensionFileLoader(LIBRARY, str(file))
    library = module_from_spec(ModuleSpec(LIBRARY, loader, origin=str(file)))
    loader.exec_module(library)
    sys.modules[LIBRARY] = library  # where the modules look for it
    return library


def find_fault() -> str | None:
    """Return why the native modules cannot be used; None if they can, or if there are none."""
    package = Path(__file__).parent
    libraries = native_files(package.parent / LIBRARY)
    if not libraries:
        return f"{LIBRARY} is missing" if has_native_modules(package) else None
    if not in_main_interpreter():
        raise ImportError(
            "tickwheel's compiled modules cannot be loaded in a sub-interpreter; "
            "import tickwheel in the main interpreter, or set TICKWHEEL_PURE=1 to load its sources instead"
        )
    users: dict[Path, dict[str, object]] = vars(sys).setdefault(USERS, {})
    file = libraries[0].resolve()
    if users.get(file, globals()) is not globals():  # they stay the same if this module is reloaded
        raise ImportError(
            "tickwheel's compiled modules can be loaded once per process, and were removed from sys.modules since; "
            "leave them there, or set TICKWHEEL_PURE=1 to load its sources instead"
        )
    try:
        library = load_library(libraries[0])
    except ImportError as error:
        return str(error)
    with file.open("rb") as opened:
        header = opened.read(HEADER_BYTES)
    initializers = [name for name in dir(library) if name.startswith(INITIALIZER)]
    modules = {name: name.removeprefix(INITIALIZER).split("___") for name in initializers}
    missing = [
        ".".join(parts)
        for initializer, parts in modules.items()
        if not points_at(initializer, package.parent.joinpath(*parts), header)
    ]
    if missing:
        return f"{', '.join(missing)}: no native module"
    users[file] = globals()
    return None


PURE = os.environ.get("TICKWHEEL_PURE", "").strip().lower() not in OFF
FAULT = None if PURE else find_fault()

if PURE or FAULT:
    sys.meta_path.insert(0, SourceFinder)

if FAULT:
    warnings.warn(
        f"the compiled modules of tickwheel cannot be loaded ({FAULT}); the interpreted ones are used, which are "
        "several times slower. To repair this, reinstall it (pip install --force-reinstall --no-deps tickwheel); "
        "to silence it, set TICKWHEEL_PURE=1",
        RuntimeWarning,
        stacklevel=2,
    )
