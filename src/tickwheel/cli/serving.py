"""`tickwheel serve`, `config` and `token`: the server, what it was told, and who may come in."""

import asyncio
import os
from functools import partial
from random import Random
from typing import Annotated, Any

import typer
from msgspec.structs import asdict

from tickwheel.cli import output
from tickwheel.cli.commands import app, console, find_scheduler, plainly
from tickwheel.cli.places import JsonOption
from tickwheel.errors import InvalidConfig, MissingExtra
from tickwheel.observe.event_log import EventLog
from tickwheel.observe.masking import SECRET_WORDS, Mask
from tickwheel.scheduler import AsyncScheduler
from tickwheel.timers.event_loop import EventLoop

__all__: list[str] = []

Text = Annotated[str | None, typer.Option()]
ConfigOption = Annotated[str | None, typer.Option("--config", help="A TOML file; TICKWHEEL_CONFIG")]
AppOption = Annotated[str | None, typer.Option("--app", help="Where a scheduler with handlers is: module:name")]
RUNS_SHARE = 0.75  # of the grace that runs have; the rest is for requests
StoreFlag = Annotated[str | None, typer.Option("--store", help="Where the tasks are: sqlite:///tasks.db")]


@app.command()
@plainly
def serve(
    *,
    config: ConfigOption = None,
    target: AppOption = None,
    store: StoreFlag = None,
    host: Text = None,
    port: Annotated[int | None, typer.Option(min=0, max=65_535, help="0 for any that is free")] = None,
    token_file: Annotated[str | None, typer.Option(help="Tokens; without one it is for this machine alone")] = None,
    tls_cert: Text = None,
    tls_key: Text = None,
    grace_s: Annotated[float | None, typer.Option("--grace", help="Seconds for runs to end when it is stopped")] = None,
    rate_per_s: Annotated[int | None, typer.Option("--rate", help="Requests a second of one client; 0: any")] = None,
    deliver: Annotated[bool | None, typer.Option("--deliver", help="Send webhooks and hand out queues")] = None,
    webhook_secret_file: Annotated[str | None, typer.Option(help="What webhooks are signed with")] = None,
    demo: Annotated[bool | None, typer.Option("--demo", help="Example handlers, and tasks for them")] = None,
) -> None:
    """Serve the API and the dashboard, and run tasks."""
    try:
        from tickwheel.observe.logs import configure_logs  # noqa: PLC0415 - its packages are an extra
        from tickwheel.server.demo import furnish, trade  # noqa: PLC0415 - as above
        from tickwheel.server.process import serve as run  # noqa: PLC0415 - as above
    except MissingExtra as missing:
        raise MissingExtra("the service and its dashboard", missing.package, "server") from missing

    flags = {
        "app": target,
        "store": store,
        "host": host,
        "port": port,
        "token_file": token_file,
        "tls_cert": tls_cert,
        "tls_key": tls_key,
        "grace_s": grace_s,
        "rate_per_s": rate_per_s,
        "deliver": deliver,
        "webhook_secret_file": webhook_secret_file,
        "demo": demo,
    }
    settings = effective(flags, config)
    configure_logs(settings.log, level=settings.log_level, mask=Mask((*SECRET_WORDS, *settings.mask)))
    scheduler = scheduler_for(settings)
    chance = Random()  # noqa: S311 - it makes up customers
    if settings.demo:
        furnish(scheduler, chance)  # it fails a lot, and shows that in the dashboard
    else:
        EventLog(scheduler)
    along = partial(trade, scheduler, chance) if settings.demo else None
    with asyncio.Runner(loop_factory=EventLoop) as runner:
        runner.run(run(scheduler, settings, partial(print, flush=True), along))


def effective(flags: dict[str, Any], file: str | None) -> Any:
    """Return what the server is told, by all who tell it."""
    from tickwheel.server.sources import read_config  # noqa: PLC0415 - as above

    return read_config(flags, os.environ, file)


def scheduler_for(settings: Any) -> AsyncScheduler:
    """Find or make the scheduler to serve."""
    if settings.app is None:
        delivers = settings.deliver or settings.webhook_secret_file is not None
        return AsyncScheduler(settings.store, run=settings.demo or delivers, grace_s=settings.grace_s * RUNS_SHARE)
    found = find_scheduler(settings.app)
    return found if isinstance(found, AsyncScheduler) else found.inner


@app.command("config")
@plainly
def show_config(*, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Show what the server would be told by the file and the environment."""
    settings = effective({}, config).shown()
    if as_json:
        output.print_json(asdict(settings))
        return
    for name, value in asdict(settings).items():
        console.print(f"{name} = {value!r}", highlight=False, markup=False)


@app.command()
@plainly
def token(name: str, role: Annotated[str, typer.Argument(help="read, write or admin")] = "write") -> None:
    """Make a token, and print the line for the token file."""
    from tickwheel.server.tokens import ROLES, make_token  # noqa: PLC0415 - as above

    if role not in ROLES:
        raise InvalidConfig(f"a role is {', '.join(ROLES)}, not {role!r}")
    made, line = make_token(name, role)
    print(f"# the token, which is shown once and kept nowhere: {made}")
    print(line)


@app.command()
@plainly
def secret() -> None:
    """Make a secret to sign webhooks with, for the file that --webhook-secret-file names."""
    from tickwheel.webhooks import new_secret  # noqa: PLC0415 - nobody else needs it

    print(new_secret())
