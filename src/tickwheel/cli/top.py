"""`tickwheel top`: what goes on in a server, live."""

import threading
from collections import deque
from typing import Any, Final

from rich.console import Console
from rich.live import Live

from tickwheel.cli.client import Server
from tickwheel.cli.picture import draw
from tickwheel.errors import ServerAway

__all__ = ["watch"]

EVENTS_MAX: Final = 100


def watch(server: Server, console: Console, interval_s: float, rounds: int | None = None) -> None:
    """Draw the picture again and again, until interrupted or so many times."""
    events: deque[str] = deque(maxlen=EVENTS_MAX)
    threading.Thread(target=hear, args=(server, events), name="tickwheel-top", daemon=True).start()
    pause = threading.Event()
    with Live(console=console, auto_refresh=False, screen=console.is_terminal) as live:
        while rounds is None or rounds > 0:
            live.update(draw(server.get("/v1/wheels"), server.get("/v1/stats"), events), refresh=True)
            rounds = None if rounds is None else rounds - 1
            if rounds != 0:
                pause.wait(interval_s)


def hear(server: Server, events: deque[str]) -> None:
    """Write down what happens."""
    try:
        for event in server.events():
            events.append(line(event))
    except ServerAway as error:
        events.append(str(error))


def line(event: dict[str, Any]) -> str:
    """Say an event in a line."""
    late = f", {event['late'] * 1000:.1f} ms late" if event.get("late") is not None else ""
    took = f", took {event['took'] * 1000:.0f} ms" if event.get("took") is not None else ""
    why = f": {event['reason']}" if event.get("reason") else ""
    return f"{event['at'][11:23]}  {event['kind']:<10} {event['task_id']}  {event['name']}{late}{took}{why}"
