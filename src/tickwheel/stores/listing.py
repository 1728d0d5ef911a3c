"""Where a page begins, and which tasks belong on it: the same in every store that reads tasks in order.

A cursor is the place of the last task of a page, so that it stays good whatever comes and goes around it:

    newest      17                  by the order of arrival, from the last
    oldest      17~                 from the first
    due         1767225600000,tea   by time, and by id within a millisecond

>>> place_of("1000,tea", "due"), place_of("17", "newest")
((1000, 'tea'), (17, ''))
>>> place_of("17", "due")
Traceback (most recent call last):
tickwheel.errors.InvalidCursor: '17' is not where a page ended; begin without a cursor
"""

import re
from typing import Final

from tickwheel.errors import InvalidCursor, InvalidFilter
from tickwheel.stores.contract import Filter, Order
from tickwheel.tasks.fields import MOMENT_MAX, choice, invalid, sayable, whole
from tickwheel.tasks.record import Status, Task

__all__ = ["LAST_SERIAL", "Place", "check_filter", "cursor_of", "fits", "is_plain", "place_of"]

Place = tuple[int, str]  # a serial and nothing, or a time and an id

LAST_SERIAL: Final = 10**18  # fits 64 bits
STATUSES: Final = tuple(status.value for status in Status)
FORMS: Final[dict[Order, re.Pattern[str]]] = {
    "newest": re.compile(r"([0-9]{1,18})()"),
    "oldest": re.compile(r"([0-9]{1,18})()~"),
    "due": re.compile(r"([0-9]{1,16}),(.{1,255})", re.DOTALL),
}


def place_of(cursor: object, order: Order) -> Place:
    """Read after which place a page begins."""
    if cursor is None:
        return (LAST_SERIAL if order == "newest" else -1, "")
    form = FORMS[order].fullmatch(cursor) if isinstance(cursor, str) and sayable(cursor) else None
    if form is None:
        raise InvalidCursor(cursor)
    return (int(form[1]), form[2])


def cursor_of(place: Place, order: Order) -> str:
    """Write where a page ended."""
    number, task_id = place
    return f"{number},{task_id}" if order == "due" else f"{number}~" if order == "oldest" else f"{number}"


def check_filter(wanted: Filter) -> None:
    """Refuse what cannot be listed: callers need not have been checked by a type checker."""
    if not isinstance(wanted, Filter):
        raise invalid("filter", wanted, "a Filter", InvalidFilter)
    choice("order", wanted.order, tuple(FORMS), InvalidFilter)
    if wanted.status is not None:
        choice("status", wanted.status, STATUSES, InvalidFilter)
    for field in ("handler", "id_prefix", "tag", "text"):
        value = getattr(wanted, field)
        if value is not None and not (isinstance(value, str) and sayable(value)):
            raise invalid(field, value, "text without NUL and lone surrogates", InvalidFilter)
    for field in ("due_after", "due_before"):
        value = getattr(wanted, field)
        if value is not None:
            whole(field, value, -MOMENT_MAX, MOMENT_MAX, InvalidFilter)
    if wanted.order == "due" and wanted.status not in (None, Status.PENDING):
        raise InvalidFilter(f"only what is pending comes due; list what is {wanted.status} by newest or oldest")


def is_plain(wanted: Filter) -> bool:
    """Tell whether a filter asks for nothing that has to be compared task by task: an index has the rest."""
    by_time = wanted.order == "due"
    return (
        wanted.tag is None
        and not wanted.text
        and (by_time or (wanted.due_after is None and wanted.due_before is None))
        and not (by_time and (wanted.handler is not None or wanted.id_prefix))
    )


def fits(task: Task, wanted: Filter) -> bool:
    """Tell whether a task is what a filter asks for."""
    return (
        wanted.status in (None, task.listed_status)
        and wanted.handler in (None, task.handler)
        and task.id.startswith(wanted.id_prefix or "")
        and (wanted.order != "due" or task.listed_status is Status.PENDING)
        and (wanted.due_after is None or task.run_at > wanted.due_after)
        and (wanted.due_before is None or task.run_at < wanted.due_before)
        and (wanted.tag is None or wanted.tag in task.tags)
        and (not wanted.text or any(wanted.text in place for place in (task.id, task.handler, *task.tags)))
    )
