"""Ids in addresses: an id may be any text, so that it is taken from the address as it was written.

/v1/tasks/a%2Fb              the task "a/b"
/v1/tasks/a%3Arun            the task "a:run"
/v1/tasks/a:run              run the task "a"
"""

from urllib.parse import unquote

from tickwheel.server.problems import Problem
from tickwheel.server.service import Asked

__all__ = ["action_of", "nowhere", "segments_of", "written_after"]

TASKS = b"/v1/tasks/"


def segments_of(request: Asked) -> list[str]:
    """Return what comes after /v1/tasks/, part by part."""
    return [unquote(part) for part in written_after(request, TASKS).split("/")]


def action_of(request: Asked) -> tuple[str, str]:
    """Return an id and what is to be done with it."""
    task_id, colon, action = written_after(request, TASKS).rpartition(":")
    if not colon or "/" in task_id or "/" in action:
        raise nowhere(request)
    return unquote(task_id), action


def written_after(request: Asked, beginning: bytes) -> str:
    """Return what comes after the beginning of an address, as it was written."""
    raw: bytes = request.scope.get("raw_path") or request.scope["path"].encode()
    return raw.partition(b"?")[0].partition(beginning)[2].decode("latin-1")


def nowhere(request: Asked) -> Problem:
    """Say that there is nothing at an address."""
    detail = f"there is no {request.method} {request.scope['path']!r:.300}"
    return Problem(404, "not-found", "There is nothing at this address", detail)
