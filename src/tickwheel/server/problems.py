"""Errors as answers: RFC 9457 problem documents, with a stable type and pointers into the body.

    HTTP/1.1 422 Unprocessable Entity
    content-type: application/problem+json

    {"type": "https://tickwheel.dev/problems/invalid-duration", "title": "Invalid duration", "status": 422,
     "detail": "invalid duration 'soon': ...",
     "errors": [{"pointer": "/delay", "detail": "invalid duration 'soon': ..."}]}

The type is made of the name of the error, and is as stable as that.
"""

import logging
import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from litestar import Request, Response
from litestar.exceptions import HTTPException

from tickwheel import errors
from tickwheel.errors import TickwheelError

__all__ = ["MEDIA_TYPE", "Fault", "Problem", "ProblemBody", "answer_for", "pointing", "problem_of", "respond"]

log = logging.getLogger("tickwheel.server")

MEDIA_TYPE: Final = "application/problem+json"
TYPES: Final = "https://tickwheel.dev/problems/"
RETRY_AFTER_S: Final = 1

STATUSES: Final[dict[type[TickwheelError], int]] = {
    errors.UnknownTask: 404,
    errors.DuplicateTask: 409,
    errors.TaskRunning: 409,
    errors.TaskFinished: 409,
    errors.TaskUnreadable: 409,
    errors.LeaseLost: 409,
    errors.TooManyLeases: 429,
    errors.NoQueuesHere: 503,
    errors.SchedulerNotStarted: 503,
    errors.VersionMismatch: 412,
    errors.PayloadTooLarge: 413,
    errors.BatchTooLarge: 413,
    errors.StoreError: 503,
}
UNPROCESSABLE: Final = 422  # every other mistake of ours to name is one in what was asked for
BROKEN: Final = 500

TITLES: Final[dict[int, tuple[str, str]]] = {
    400: ("bad-request", "The request cannot be read"),
    404: ("not-found", "There is nothing at this address"),
    405: ("method-not-allowed", "This cannot be done at this address"),
    413: ("body-too-large", "The body is too large"),
    BROKEN: ("internal-error", "A mistake of ours"),
}


class Fault(msgspec.Struct, frozen=True):
    """One thing that is wrong, and where."""

    pointer: str  # RFC 6901, into the body
    detail: str


class ProblemBody(msgspec.Struct, frozen=True, kw_only=True):
    """What a problem says."""

    type: str
    title: str
    status: int
    detail: str
    errors: list[Fault] = []


class Problem(Exception):
    """An answer that says what is wrong."""

    def __init__(
        self,
        status: int,
        slug: str,
        title: str,
        detail: str,
        *,
        faults: Sequence[Fault] = (),
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.body = ProblemBody(type=TYPES + slug, title=title, status=status, detail=detail, errors=list(faults))
        self.headers = headers or {}


def problem_of(error: TickwheelError, pointer: str | None = None) -> Problem:
    """Say as a problem what one of our errors says."""
    status = next((code for kind, code in STATUSES.items() if isinstance(error, kind)), UNPROCESSABLE)
    slug = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", type(error).__name__).lower()
    title = (type(error).__doc__ or "").partition("\n")[0].rstrip(".")
    if pointer is None and error.field is not None:
        pointer = f"/{error.field.replace('~', '~0').replace('/', '~1')}"
    faults = [] if pointer is None else [Fault(pointer, str(error))]
    headers = {"retry-after": str(RETRY_AFTER_S)} if status in (429, 503) else None
    return Problem(status, slug, title, str(error), faults=faults, headers=headers)


class pointing:  # noqa: N801 - read as a word: with pointing("/cron")
    """Let what goes wrong in here point to a place in the body."""

    def __init__(self, pointer: str) -> None:
        self._pointer = pointer

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, TickwheelError):
            raise problem_of(error, self._pointer) from error


def respond(problem: Problem) -> Response[bytes]:
    """Make the answer."""
    headers = {"cache-control": "no-store", "x-content-type-options": "nosniff", **problem.headers}
    return Response(
        msgspec.json.encode(problem.body), status_code=problem.body.status, media_type=MEDIA_TYPE, headers=headers
    )


def answer_for(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    """Answer whatever was raised."""
    if isinstance(error, Problem):
        return respond(error)
    if isinstance(error, TickwheelError):
        return respond(problem_of(error))
    if isinstance(error, HTTPException) and error.status_code < BROKEN:
        slug, title = TITLES.get(error.status_code, TITLES[400])
        asked = f"{request.method} {request.url.path:.300}"
        return respond(
            Problem(error.status_code, slug, title, f"{asked}: {error.detail}", headers=dict(error.headers or {}))
        )
    log.error("%s %s went wrong", request.method, request.url.path, exc_info=error)
    return respond(Problem(BROKEN, *TITLES[BROKEN], "the log has the details"))
