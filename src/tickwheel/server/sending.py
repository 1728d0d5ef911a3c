"""Webhooks as a server is told to send them: with secrets from a file, and to networks that are named."""

from collections.abc import Sequence
from pathlib import Path

from tickwheel.errors import InvalidConfig, InvalidSecret, InvalidTask
from tickwheel.webhooks.sender import Webhooks

__all__ = ["webhooks_of"]


def webhooks_of(file: str, networks: Sequence[str]) -> Webhooks:
    """Make what sends webhooks; in the file, a line that begins with # is a remark."""
    try:
        lines = [line.strip() for line in Path(file).read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError) as error:
        raise InvalidConfig(f"the secrets of webhooks cannot be read: {error}") from None
    try:
        return Webhooks([line for line in lines if line and not line.startswith("#")], allow=networks)
    except (InvalidSecret, InvalidTask) as error:
        raise InvalidConfig(f"webhooks cannot be sent with {file}: {error}") from None
