"""Tasks over HTTP: the API, the stream of events, and the dashboard."""

from tickwheel.server.app import create_app, running
from tickwheel.server.config import Config

__all__ = ["Config", "create_app", "running"]
