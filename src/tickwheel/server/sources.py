"""Where a server is told how to be: flags win over the environment, that over a file, and that over what is usual.

tickwheel serve --port 9000         a flag
TICKWHEEL_PORT=9000                 the environment
port = 9000                         a TOML file, named by --config or TICKWHEEL_CONFIG
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from tickwheel.errors import InvalidConfig
from tickwheel.server.config import Config

__all__ = ["read_config"]

PREFIX: Final = "TICKWHEEL_"
FIELDS: Final = {field.name: field for field in msgspec.structs.fields(Config)}


def read_config(flags: Mapping[str, Any], environment: Mapping[str, str], file: str | None = None) -> Config:
    """Put together what was said; what was not said is as usual."""
    said = {**from_file(file or environment.get(f"{PREFIX}CONFIG")), **from_environment(environment)}
    said |= {name: value for name, value in flags.items() if value is not None}
    try:
        return msgspec.convert(said, Config, strict=False)
    except msgspec.ValidationError as error:
        raise InvalidConfig(str(error).replace(" - at `$.", " - at `")) from None


def from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    """Read what the environment says; a list is written with commas."""
    said: dict[str, Any] = {}
    for name, field in FIELDS.items():
        written = environment.get(f"{PREFIX}{name.upper()}")
        if written is not None:
            said[name] = [part.strip() for part in written.split(",")] if field.type == list[str] else written
    return said


def from_file(path: str | None) -> dict[str, Any]:
    """Read a TOML file."""
    if path is None:
        return {}
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidConfig(f"the configuration {path} cannot be read: {error}") from None
