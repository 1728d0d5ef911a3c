"""Reading what was sent: a body or a query becomes a struct, or a problem that points to what is wrong.

>>> pointer_of("Expected `int`, got `str` - at `$.tasks[3].priority`")
'/tasks/3/priority'
>>> pointer_of("Object contains unknown field `colour`")
'/colour'
"""

import re
from collections.abc import Mapping
from typing import Any, Final, TypeVar

import msgspec
from litestar import Request

from tickwheel.errors import hint
from tickwheel.server.problems import Fault, Problem

__all__ = ["body_of", "check_depth", "decode", "pointer_of", "query_of"]

T = TypeVar("T")

JSON: Final = "application/json"
PLACE: Final = re.compile(r"^(?P<what>.*?)(?: - at `(?:key in )?\$(?P<path>.*)`)?$", re.DOTALL)
FIELD: Final = re.compile(r"(?:unknown|missing required) field `(.*)`$", re.DOTALL)
STEP: Final = re.compile(r"\.([^.\[]+)|\[(\d+|\.\.\.)\]")


def decode(raw: bytes | msgspec.Raw, kind: type[T], depth_max: int, at: str = "") -> T:
    """Read JSON, or raise a problem; `at` is where it stands in the whole body."""
    try:
        read: T = msgspec.json.decode(raw, type=kind)
        check_depth(raw, depth_max)
    except msgspec.ValidationError as error:
        pointer = at + pointer_of(str(error))
        what = PLACE.match(str(error))
        detail = advised(what["what"] if what else str(error), kind)
        raise Problem(
            422,
            "invalid-body",
            "The body does not fit",
            f"{pointer or 'the body'}: {detail}",
            faults=[Fault(pointer, detail)],
        ) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Problem(
            400, "malformed-json", "The body is not JSON", str(error), faults=[Fault(at, str(error))]
        ) from None
    except RecursionError:
        raise too_deep(depth_max, at) from None
    return read


def advised(detail: str, kind: type[Any]) -> str:
    """Say with an unknown field which one was probably meant."""
    field = FIELD.search(detail)
    if field is None or not detail.startswith("Object contains unknown field"):
        return detail
    return f"unknown field {field[1]!r:.100}; {hint(field[1], sorted(getattr(kind, '__struct_fields__', ())))}"


def check_depth(raw: bytes | msgspec.Raw, depth_max: int) -> None:
    """Raise `RecursionError` for what is nested deeper than anyone needs; brackets in texts count as well."""
    written = bytes(raw)
    if written.count(b"[") + written.count(b"{") <= depth_max:
        return
    depth, level = 0, [msgspec.json.decode(written)]
    while level:
        depth += 1
        if depth > depth_max:
            raise RecursionError
        inner = (list(value.values()) if isinstance(value, dict) else value for value in level if value)
        level = [value for values in inner for value in values if isinstance(value, (dict, list))]


def too_deep(depth_max: int, at: str) -> Problem:
    """Say that a body is nested too deeply."""
    detail = f"it is nested more than {depth_max} levels deep"
    return Problem(422, "nested-too-deeply", "The body is nested too deeply", detail, faults=[Fault(at, detail)])


def pointer_of(message: str) -> str:
    """Return where an error of msgspec is, as a JSON pointer."""
    match = PLACE.match(message)
    what, path = (match["what"], match["path"] or "") if match else (message, "")
    steps = [name or number for name, number in STEP.findall(path) if number != "..."]
    field = FIELD.search(what)
    if field:
        steps.append(field[1])
    return "".join(f"/{step.replace('~', '~0').replace('/', '~1')}" for step in steps)


async def body_of(request: Request[Any, Any, Any], kind: type[T], depth_max: int, *, empty: T | None = None) -> T:
    """Read the body of a request; `empty` stands for one that was left out, if it may be."""
    raw = await request.body()
    if not raw and empty is not None:
        return empty
    if request.headers.get("content-type") != JSON and request.content_type[0] != JSON:  # the usual one is quickly seen
        detail = f"send application/json, not {request.content_type[0] or 'nothing'!r}"
        raise Problem(415, "unsupported-media-type", "The body has to be JSON", detail)
    return decode(raw, kind, depth_max)


def query_of(request: Request[Any, Any, Any], kind: type[T]) -> T:
    """Read the query of a request."""
    given: Mapping[str, str] = {name: value for name, value in request.query_params.items() if value}
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        name = pointer_of(str(error)).removeprefix("/")
        what = PLACE.match(str(error))
        raise Problem(
            422, "invalid-query", "The query does not fit", f"{name}: {what['what'] if what else error}"
        ) from None
