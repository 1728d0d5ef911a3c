"""Where the tasks of a command are: in a store, or behind a server."""

from typing import TYPE_CHECKING, Annotated

import typer

from tickwheel.scheduler import Scheduler

if TYPE_CHECKING:
    from tickwheel.cli.remote import RemoteScheduler

__all__ = ["DEFAULT_STORE", "JsonOption", "StoreOption", "TokenOption", "UrlOption", "opened"]

StoreOption = Annotated[
    str, typer.Option("--store", envvar="TICKWHEEL_STORE", help="Where the tasks are: sqlite:///tasks.db")
]
UrlOption = Annotated[
    str | None, typer.Option("--url", envvar="TICKWHEEL_URL", help="A server instead of a store: http://127.0.0.1:8765")
]
TokenOption = Annotated[str | None, typer.Option("--token", envvar="TICKWHEEL_TOKEN", help="For the server")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
DEFAULT_STORE = "sqlite:///tasks.db"


def opened(store: str, url: str | None, token: str | None, *, create: bool = False) -> "Scheduler | RemoteScheduler":
    """Return where the tasks are: a server, if one was named, or a store, which must exist by default."""
    if url is None:
        return Scheduler(store, run=False, create=create)
    from tickwheel.cli.remote import RemoteScheduler  # noqa: PLC0415 - its packages are an extra

    return RemoteScheduler(url, token)
