"""Logs for a service: what the program logs, on one stream, for people or for machines.

    configure_logs("json")

    {"event": "task 'a' of 'mail.send' failed: it failed; ...", "level": "error", "logger": "tickwheel.tasks",
     "task_id": "a", "handler": "mail.send", "attempt": 3, "timestamp": "2027-01-31T09:00:00.123456Z"}

The library itself only uses `logging`, and whoever has a set-up of his own leaves this alone. Rendered are the fields a
record was given (`log.info("paid", extra={"order_id": 7})`) and, if it was logged by a handler, which task it runs for.
Fields with secrets' names are masked.
"""

import logging
import sys
from typing import Any, Final, Literal, TextIO

from tickwheel.errors import MissingExtra, UnknownOption
from tickwheel.observe.event_log import run_fields
from tickwheel.observe.masking import MASKED, Mask

try:
    import structlog
    from structlog.typing import EventDict, Processor
except ImportError as error:
    raise MissingExtra("structured logs", "structlog", "server") from error

__all__ = ["LogStyle", "configure_logs"]

LogStyle = Literal["console", "json"]

NAME: Final = "tickwheel"  # of the handler, by which it is found and replaced


def configure_logs(
    style: LogStyle = "console", *, level: str | int = "INFO", stream: TextIO | None = None, mask: Mask | None = None
) -> logging.Handler:
    """Render everything that is logged; once more replaces what was configured before."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.set_name(NAME)
    handler.setFormatter(formatter(style, mask or Mask(), colors=handler.stream.isatty()))
    root = logging.getLogger()
    for other in [other for other in root.handlers if other.get_name() == NAME]:
        root.removeHandler(other)
    root.addHandler(handler)
    root.setLevel(level)
    return handler


def formatter(style: LogStyle, mask: Mask, *, colors: bool) -> logging.Formatter:
    """Make what turns a record into text."""
    last: list[Processor]
    if style == "json":
        last = [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    elif style == "console":
        last = [structlog.dev.ConsoleRenderer(colors=colors, exception_formatter=structlog.dev.plain_traceback)]
    else:
        raise UnknownOption(f"style={style}", ["style=console", "style=json"])
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[
            add_run,
            structlog.stdlib.ExtraAdder(),
            drop_leftovers,
            structlog.stdlib.add_log_level,
            structlog.stdlib.add_logger_name,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
        ],
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, Masking(mask), *last],
    )


def add_run(_logger: Any, _method: str, fields: EventDict) -> EventDict:
    """Add which run it is that logs."""
    return {**run_fields(), **fields}


def drop_leftovers(_logger: Any, _method: str, fields: EventDict) -> EventDict:
    """Drop what formatters of other handlers leave on a record they had before."""
    return {name: value for name, value in fields.items() if name not in ("message", "asctime")}


class Masking:
    """Masks the fields of a record."""

    def __init__(self, mask: Mask) -> None:
        self._mask = mask

    def __call__(self, _logger: Any, _method: str, fields: EventDict) -> EventDict:
        """Mask what has a secret's name, on its own or inside of something."""
        return {name: MASKED if self._mask.hides(name) else self._mask(value) for name, value in fields.items()}
