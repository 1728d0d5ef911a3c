"""The Lua scripts, from their files: each begins with what is common to all."""

from hashlib import sha1
from importlib.resources import files
from typing import Final

__all__ = ["SCRIPTS", "SHAS"]


def read_scripts() -> dict[str, bytes]:
    """Return the scripts by name."""
    folder = files("tickwheel.stores.redis") / "lua"
    texts = {path.name.removesuffix(".lua"): path.read_bytes() for path in folder.iterdir()}
    common = texts.pop("common")
    return {name: common + b"\n" + text for name, text in texts.items()}


SCRIPTS: Final = read_scripts()
SHAS: Final = {name: sha1(text, usedforsecurity=False).hexdigest() for name, text in SCRIPTS.items()}
