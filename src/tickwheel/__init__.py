"""tickwheel: the timing wheel for Python."""

from tickwheel import build, wheels
from tickwheel.errors import TickwheelError

__all__ = ["COMPILED", "TickwheelError", "__version__", "wheels"]

__version__ = "0.1.0"

COMPILED: bool = build.compiled(wheels)
