"""What happens to tasks, as one stream of events that metrics, logs and pictures hang on."""

from tickwheel.observe.events import Event, Events, Kind
from tickwheel.observe.picture import Picture, Watched

__all__ = ["Event", "Events", "Kind", "Picture", "Watched"]
