"""From what a caller says to a task: everything is checked here, before a store hears of it.

add(handler, args, delay="30d", priority=5)  --+
POST /v1/tasks {"handler": ..., "delay": ...} -+--> build_task() --> Task, each field of the type that a store returns
tickwheel add HANDLER ARGS --delay 30d       --+            `-> an error with `.field`, and nothing was written
"""

from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypedDict
from zlib import crc32

import msgspec

from tickwheel.durations import Duration, to_ns
from tickwheel.errors import InvalidDuration, InvalidSchedule, InvalidTask, PayloadTooLarge
from tickwheel.stores.validation import NAME_CHARS_MAX, check_payload
from tickwheel.tasks.destinations import Webhook, check_webhook
from tickwheel.tasks.fields import MOMENT_MAX, choice, flag, invalid, is_a, items_of, json_object, known, text, whole
from tickwheel.tasks.policies import (
    LATE_MODES,
    OVERLAPS,
    RETRIES_MAX,
    RUN_ONCE,
    LateMode,
    LatePolicy,
    Overlap,
    RetryPolicy,
)
from tickwheel.tasks.record import CRASHES_MAX, Status, Task
from tickwheel.tasks.registry import Handler
from tickwheel.tasks.transitions.series import FRESH
from tickwheel.tasks.triggers import ONCE, Cron, Every, Once, Trigger

__all__ = [
    "TAGS_MAX",
    "TAG_CHARS_MAX",
    "TaskFields",
    "build_task",
    "build_update",
    "check_time",
    "check_timeout",
    "due_after",
    "moment_of",
    "partition_of",
    "to_ms",
]

PRIORITY_MAX: Final = 1_000
TAGS_MAX: Final = 20
TAG_CHARS_MAX: Final = 64
MAX_CRASHES_MAX: Final = 1_000
TIMES_MAX: Final = 2**31 - 1  # occurrences; every second for 68 years


class TaskFields(TypedDict, total=False):
    """What can be said about a task besides its handler and arguments."""

    id: str
    delay: Duration  # from now
    at: datetime  # with a time zone
    every: Duration
    cron: str
    tz: str
    times: int  # occurrences; -1 for ever
    retries: int
    retry: RetryPolicy
    late: LateMode | LatePolicy
    timeout: Duration
    priority: int
    meta: Mapping[str, Any]  # JSON
    tags: list[str]
    overlap: Overlap
    at_most_once: bool
    max_crashes: int  # deaths of the process during one occurrence; then it has failed
    expires_at: datetime | None  # with a time zone
    webhook: str | Webhook  # where to send it, instead of a handler
    queue: str  # where it waits to be leased, instead of a handler


TO_WHOM: Final = frozenset({"handler", "args"})  # said beside the wishes
WISHES: Final = frozenset(TaskFields.__annotations__)
FIXED: Final = frozenset({"id", "webhook", "queue"})  # what stays as it is for as long as there is the task
AS_SAID: Final = ("meta", "tags", "priority", "late", "times", "overlap", "at_most_once", "max_crashes", "expires_at")
USUAL: Final = TO_WHOM | {"id", "delay", "at"}  # what most tasks say
PLAIN_ARGS_MAX: Final = 16  # that are looked at one by one
PLAIN_CHARS_MAX: Final = 1_000
INT_MAX: Final = 2**53 - 1
MS_NS: Final = 1_000_000
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)  # not in the zone of a moment: within one, clocks are subtracted
MILLISECOND: Final = timedelta(milliseconds=1)


def build_task(handler: Handler, wishes: Mapping[str, Any], task_id: object, now_ns: int, partitions: int) -> Task:
    """Make a task for a handler, or say what is wrong with it."""
    name = text("id", task_id, NAME_CHARS_MAX)
    partition = partition_of(name, partitions)
    args = wishes.get("args")
    for said in wishes:
        if said not in USUAL:
            break
    else:
        first = _first(wishes, ONCE, now_ns)
        return Task(
            id=name,
            handler=handler.name,
            args={} if args is None else _plain(args) or _checked(args, None),
            retry=handler.retry,
            timeout_ms=handler.timeout_ms,
            partition=partition,
            run_at=first,
            occurrence_at=first,
            created_at=now_ns // MS_NS,
        )
    known([said for said in wishes if said not in TO_WHOM], WISHES)
    unusual = _unusual(wishes, handler.retry, handler.timeout_ms)
    _check_at_most_once(unusual["at_most_once"], unusual["retry"])
    _check_times(unusual["times"], unusual["trigger"])
    first = _first(wishes, unusual["trigger"], now_ns)
    return Task(
        id=name,
        handler=handler.name,
        args=_checked({} if args is None else args, unusual["meta"]),
        partition=partition,
        run_at=first,
        occurrence_at=first,
        grid_at=_asked_for(unusual["trigger"], first, now_ns),
        created_at=now_ns // MS_NS,
        **unusual,
    )


def _unusual(wishes: Mapping[str, Any], retry: RetryPolicy, timeout_ms: int) -> dict[str, Any]:
    """Return the fields of a task that are not as usual; a policy and a timeout stand for what is not said."""
    trigger = _trigger(wishes)
    if "timeout" in wishes:
        timeout_ms = check_timeout(wishes["timeout"])
    expires_at = wishes.get("expires_at")
    overlap: Any = choice("overlap", wishes.get("overlap", "skip"), OVERLAPS, InvalidSchedule)
    return {
        "meta": json_object("meta", wishes["meta"]) if "meta" in wishes else {},
        "tags": _tags(wishes["tags"]) if "tags" in wishes else [],
        "trigger": trigger,
        "retry": _retry(wishes, retry),
        "late": _late(wishes),
        "timeout_ms": timeout_ms,
        "priority": whole("priority", wishes.get("priority", 0), -PRIORITY_MAX, PRIORITY_MAX),
        "times": _times(wishes, trigger),
        "overlap": overlap,
        "at_most_once": flag("at_most_once", wishes.get("at_most_once", False)),
        "max_crashes": whole("max_crashes", wishes.get("max_crashes", CRASHES_MAX), 1, MAX_CRASHES_MAX),
        "expires_at": None if expires_at is None else check_time("expires_at", expires_at),
        "webhook": check_webhook(wishes["webhook"]) if "webhook" in wishes else None,
    }


def build_update(task: Task, args: object, wishes: Mapping[str, Any], now_ns: int) -> Task:
    """Return a task that waits as it is to be from now on: what is not said stays as it is."""
    said = wishes.keys()
    for name in said:
        if name in FIXED:
            raise InvalidTask(f"{name} of a task cannot be changed; add another task").within(name)
    known(said, WISHES - FIXED)
    fields = _unusual(wishes, task.retry, task.timeout_ms)
    changed: dict[str, Any] = {name: fields[name] for name in AS_SAID if name in said}
    if "timeout" in said:
        changed["timeout_ms"] = fields["timeout_ms"]
    if said & {"retry", "retries"}:
        changed["retry"] = fields["retry"]
    if said & {"every", "cron"}:
        changed["trigger"] = fields["trigger"]
        if "times" not in said and isinstance(task.trigger, Once):
            changed["times"] = fields["times"]  # it comes again from now on
    if said & {"delay", "at", "every", "cron"}:
        trigger = changed.get("trigger", task.trigger)
        first = _first(wishes, trigger, now_ns)
        changed |= _moved(task, trigger, first, _asked_for(trigger, first, now_ns))
    if args is not None or "meta" in said:
        meta = changed.get("meta", task.meta)
        changed["args"] = _checked(task.args if args is None else args, meta)
    after = msgspec.structs.replace(task, **changed)
    _check_update(after, said)
    return after


def _check_update(after: Task, said: Collection[str]) -> None:
    """Refuse what does not go together, as far as it was said now."""
    if not {"at_most_once", "retry", "retries"}.isdisjoint(said):
        _check_at_most_once(after.at_most_once, after.retry)
    if "times" in said:
        _check_times(after.times, after.trigger)


def _moved(task: Task, trigger: Trigger, first: int, grid_at: int | None) -> dict[str, Any]:
    """Return what changes with the time of a task; a run_now of a series is made all the same.

    Of a task that runs once it is withdrawn: it would be the only run, and the new time would be lost.
    """
    extra = task.next_at is not None and not isinstance(trigger, Once)
    if extra and not task.has_begun and task.status is Status.PENDING:
        return {"next_at": first, "grid_at": grid_at}
    return {"run_at": first, "occurrence_at": first, **FRESH, "grid_at": grid_at}  # another time, another occurrence


def _asked_for(trigger: Trigger, first: int, now_ns: int) -> int | None:
    """Return the first run of a series of `every` if it was given a moment: a clock that is set back keeps it."""
    return first if isinstance(trigger, Every) and first > -(-now_ns // MS_NS) + trigger.interval_ms else None


def _check_at_most_once(at_most_once: bool, retry: RetryPolicy) -> None:  # noqa: FBT001 - the field
    """Refuse retries of what must not run twice."""
    if at_most_once and retry.retries:
        raise InvalidTask(f"at_most_once excludes retries, and this task has {retry.retries}; give retries=0").within(
            "at_most_once"
        )


def _tags(tags: object) -> list[str]:
    """Return tags without repetitions."""
    given = items_of("tags", tags) if is_a(tags, list) or is_a(tags, tuple) else None
    if given is None or len(given) > TAGS_MAX:
        raise invalid("tags", tags, f"a list of at most {TAGS_MAX} words")
    return list(dict.fromkeys([text("tags", tag, TAG_CHARS_MAX) for tag in given]))


def _times(wishes: Mapping[str, Any], trigger: Trigger) -> int:
    times = whole("times", wishes.get("times", 1 if isinstance(trigger, Once) else -1), -1, TIMES_MAX)
    if times == 0:
        raise invalid("times", times, "how often it is due, at least 1, or -1 for ever")
    return times


def _check_times(times: int, trigger: Trigger) -> None:
    """Refuse what would run once and says otherwise."""
    if times != 1 and isinstance(trigger, Once):
        raise InvalidTask(f"times={times} needs every or cron; a task without them runs once").within("times")


def partition_of(task_id: str, partitions: int) -> int:
    """Return the partition of an id: the same everywhere and for ever."""
    return crc32(task_id.encode()) % partitions


def to_ms(duration: Duration) -> int:
    """Return a duration in milliseconds, rounded up."""
    return -(-to_ns(duration) // MS_NS)


def due_after(now_ns: int, delay: Duration) -> int:
    """Return when a delay from now is over: rounded up together with the reading of the clock, so never early."""
    try:
        return -(-(now_ns + to_ns(delay)) // MS_NS)
    except InvalidDuration as error:
        raise error.within("delay") from None


def check_timeout(timeout: Duration) -> int:
    """Return how long a run may take, in milliseconds."""
    timeout_ms = _span_ms("timeout", timeout)
    if timeout_ms < 1:
        raise invalid("timeout", timeout, "some time for a run, at least a millisecond")
    return timeout_ms


def _span_ms(field: str, duration: Any) -> int:
    try:
        return to_ms(duration)
    except InvalidDuration as error:
        raise error.within(field) from None


def _trigger(wishes: Mapping[str, Any]) -> Trigger:
    if "every" in wishes and "cron" in wishes:
        raise InvalidSchedule("a task is due at every interval or by a cron expression, not both").within("cron")
    if "tz" in wishes and "cron" not in wishes:
        raise InvalidSchedule("tz goes with cron; a datetime brings its own time zone").within("tz")
    if "every" in wishes:
        interval_ms = _span_ms("every", wishes["every"])
        if interval_ms < 1:
            raise invalid("every", wishes["every"], "an interval of at least a millisecond", InvalidSchedule)
        return Every(interval_ms=interval_ms)
    if "cron" in wishes:
        return Cron(expression=wishes["cron"], tz=wishes.get("tz", "UTC"))
    return ONCE


def _first(wishes: Mapping[str, Any], trigger: Trigger, now_ns: int) -> int:
    """Return when a task is due for the first time."""
    if "delay" in wishes:
        if "at" in wishes:
            raise InvalidSchedule("a task has a delay or a time, not both").within("at")
        return due_after(now_ns, wishes["delay"])
    if "at" in wishes:
        return check_time("at", wishes["at"])
    now = now_ns // MS_NS
    if isinstance(trigger, Once):
        return now
    if isinstance(trigger, Every):
        return trigger.next_after(-(-now_ns // MS_NS))
    first = trigger.next_after(now)
    if first is None:
        raise InvalidSchedule(f"{trigger} is never due again").within("cron")
    return first


def moment_of(at: object, field: str = "at") -> int:
    """Return a moment in milliseconds since 1970, rounded up."""
    try:
        if isinstance(at, datetime) and at.utcoffset() is not None:
            return -int((EPOCH - at) // MILLISECOND)
    except Exception:  # noqa: BLE001, S110 - a time zone of the caller's may raise anything, and is none then
        pass
    raise invalid(field, at, "a datetime with a time zone, such as datetime(…, tzinfo=UTC)", InvalidSchedule)


def check_time(field: str, at: object) -> int:
    """Return a moment that a store can keep, in milliseconds since 1970."""
    moment = moment_of(at, field)
    if not 0 <= moment <= MOMENT_MAX:
        raise invalid(field, at, "a time after 1970")
    return moment


def _retry(wishes: Mapping[str, Any], usual: RetryPolicy) -> RetryPolicy:
    if "retry" in wishes and "retries" in wishes:
        raise InvalidTask("give retries, or a whole RetryPolicy as retry, not both").within("retries")
    if "retries" in wishes:
        retries = whole("retries", wishes["retries"], 0, RETRIES_MAX, InvalidSchedule)
        return msgspec.structs.replace(usual, retries=retries).shared()
    policy = wishes.get("retry", usual)
    if type(policy) is not RetryPolicy:
        raise invalid("retry", policy, "a RetryPolicy; retries=3 is short for RetryPolicy(retries=3)", InvalidSchedule)
    return policy.shared()


def _late(wishes: Mapping[str, Any]) -> LatePolicy:
    late = wishes.get("late", RUN_ONCE)
    if type(late) is LatePolicy:
        return late.shared()
    if is_a(late, str):
        mode: Any = choice("late", late, LATE_MODES, InvalidSchedule)
        return LatePolicy(mode=mode).shared()
    raise invalid("late", late, f"one of {', '.join(LATE_MODES)}, or a LatePolicy", InvalidSchedule)


def _plain(args: object) -> dict[str, Any] | None:
    """Return a copy of a few short and simple arguments, which come out of JSON as they went in; None of others."""
    if type(args) is not dict or len(args) > PLAIN_ARGS_MAX:
        return None
    for name, value in args.items():
        if type(name) is not str or not _is_plain(name):
            return None
        if not (value is None or type(value) is bool or _is_plain(value)):
            return None
    return args.copy()


def _is_plain(value: object) -> bool:
    if type(value) is str:
        return len(value) <= PLAIN_CHARS_MAX and value.isascii() and "\0" not in value
    return type(value) is int and -INT_MAX <= value <= INT_MAX


def _checked(args: object, meta: dict[str, Any] | None) -> dict[str, Any]:
    """Return the arguments as they will come out of a store again."""
    copy = json_object("args", args)
    try:
        check_payload(copy, meta or {})
    except PayloadTooLarge as error:
        raise error.within("args") from None
    return copy
