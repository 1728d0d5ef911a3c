"""`tickwheel worker`: run the tasks of a scheduler in the foreground.

$ tickwheel worker shop:scheduler --concurrency 20 --metrics-port 9090
tickwheel: ready: 2 handlers (orders.cancel, reports.monthly), 64 partitions of sqlite:///tasks.db, process 4711
tickwheel: 0 tasks overdue, 0 orphaned
^C
tickwheel: stopping: waiting up to 30 s for running tasks; a second signal ends the wait
tickwheel: stopped
"""

import logging
import os
from typing import Annotated
from urllib.parse import urlsplit

import typer

from tickwheel.cli.commands import app, find_scheduler, plainly
from tickwheel.cli.output import unmarked
from tickwheel.errors import InvalidConfig, InvalidTask, MissingExtra
from tickwheel.observe.event_log import EventLog
from tickwheel.scheduler import AsyncScheduler, Scheduler

__all__: list[str] = []

THREADS_MAX = 1_000  # what a scheduler accepts
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


@app.command()
@plainly
def worker(
    target: Annotated[str, typer.Argument(help="Where the scheduler is: module:name")],
    *,
    store: Annotated[
        str | None, typer.Option("--store", help="Where the tasks are, instead of the scheduler's own store")
    ] = None,
    concurrency: Annotated[int | None, typer.Option(min=1, max=100_000, help="Tasks to run at the same time")] = None,
    log_level: Annotated[
        str, typer.Option(help="DEBUG (every task), INFO, WARNING (retries), ERROR (failures) or CRITICAL")
    ] = "INFO",
    metrics_port: Annotated[
        int | None, typer.Option(min=0, max=65_535, help="Serve metrics for Prometheus on this port, to any host")
    ] = None,
) -> None:
    """Run the tasks of a scheduler until stopped (Ctrl-C, SIGTERM)."""
    configure(log_level)
    found = find_scheduler(target)
    scheduler = Scheduler(found) if isinstance(found, AsyncScheduler) else found
    inner = scheduler.inner
    if not inner._run:
        raise InvalidTask(f"the scheduler at {target!r} runs no tasks: it was made with run=False")
    options = {} if concurrency is None else {"in_flight_max": concurrency, "threads": min(concurrency, THREADS_MAX)}
    inner._configure(store, **options)
    EventLog(scheduler)
    if metrics_port is not None:
        from tickwheel.observe.metrics import Metrics  # noqa: PLC0415 - its packages are an extra

        say(f"metrics at http://localhost:{Metrics(scheduler).serve(metrics_port)}/metrics")

    def announce() -> None:
        names = sorted(handler.name for handler in inner.handlers())
        handlers = f"{len(names)} handler{'s' * (len(names) != 1)} ({', '.join(names) or 'none'})"
        report = scheduler.startup_report
        assert report is not None
        where = shown(inner._where) if isinstance(inner._where, str) else type(inner._where).__name__
        say(f"ready: {handlers}, {report.partitions} partitions of {where}, process {os.getpid()}")
        say(f"{report.overdue} tasks overdue, {report.orphaned} orphaned")

    def stopping() -> None:
        say(f"stopping: waiting up to {inner._options.grace_s:g} s for running tasks; a second signal ends the wait")

    scheduler._run_forever(announce, stopping)
    say("stopped")


def say(what: str) -> None:
    """Print a line to the terminal or the container log."""
    print(f"tickwheel: {unmarked(what)}", flush=True)


def configure(level: str) -> None:
    """Log to standard error: with the fields of each event, if structlog is installed."""
    level = level.upper()
    if level not in LEVELS:
        raise InvalidConfig(f"invalid log level {level!r}; expected {', '.join(LEVELS)}")
    try:
        from tickwheel.observe.logs import configure_logs  # noqa: PLC0415 - as above
    except MissingExtra:
        logging.basicConfig(level=level, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    else:
        configure_logs(level=level)


def shown(url: str) -> str:
    """Return the URL of a store without its password."""
    parts = urlsplit(url)
    if parts.password is None:
        return url
    return parts._replace(netloc=parts.netloc.replace(f":{parts.password}@", ":***@")).geturl()
