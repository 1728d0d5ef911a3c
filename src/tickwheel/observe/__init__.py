"""What happens to tasks, as one stream of events that metrics, logs and pictures hang on."""

from tickwheel.observe.events import Event, Events, Kind

__all__ = ["Event", "Events", "Kind"]
