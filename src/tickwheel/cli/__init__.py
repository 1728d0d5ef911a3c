"""The command line: `tickwheel serve`, `worker`, `add`, `list`, `show`, `cancel`, `reschedule`, `retry`, and more."""

from tickwheel.cli import bench, bulk, cluster, doctor, looking, serving, worker  # noqa: F401 - their commands are added to the app
from tickwheel.cli.commands import app

__all__ = ["app"]
