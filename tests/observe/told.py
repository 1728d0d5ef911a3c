"""Something to watch that runs nothing: its events are told by the test."""

from tickwheel.observe import Events, Picture

__all__ = ["Told"]


class Told:
    """A stream of events, and no picture."""

    def __init__(self) -> None:
        self.events = Events()

    def picture(self) -> Picture | None:
        return None
