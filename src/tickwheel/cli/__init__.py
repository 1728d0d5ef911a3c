"""The command line: `tickwheel worker`, `add`, `list`, `show`, `cancel`, `reschedule`, `retry`, `cron`, `doctor`."""

from tickwheel.cli.commands import app

__all__ = ["app"]
