"""From what a caller says to a task: everything is checked here, before a store hears of it."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypedDict
from zlib import crc32

import msgspec

from tickwheel.durations import Duration, to_ns
from tickwheel.errors import InvalidSchedule, InvalidTask, PayloadTooLarge
from tickwheel.stores.bounds import NAME_CHARS_MAX, PAYLOAD_BYTES_MAX
from tickwheel.tasks.delivery import Webhook, check_webhook
from tickwheel.tasks.policies import RUN_ONCE, LateMode, LatePolicy, RetryPolicy
from tickwheel.tasks.record import Task
from tickwheel.tasks.registry import Handler
from tickwheel.tasks.triggers import ONCE, Cron, Every, Once, Trigger

__all__ = ["TAGS_MAX", "TAG_CHARS_MAX", "Wishes", "amended", "draft", "partition_of", "to_ms"]

PRIORITY_MAX: Final = 1_000
TAGS_MAX: Final = 20
TAG_CHARS_MAX: Final = 64


class Wishes(TypedDict, total=False):
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
    meta: dict[str, str]
    tags: list[str]
    at_most_once: bool
    expires_at: datetime | None  # with a time zone
    webhook: str | Webhook  # where to send it, instead of a handler
    queue: str  # where it waits to be leased, instead of a handler


TO_WHOM: Final = frozenset({"handler", "args"})  # said beside the wishes
WISHES: Final = frozenset(Wishes.__annotations__)
AS_SAID: Final = ("meta", "tags", "priority", "late", "times", "at_most_once", "expires_at")
USUAL: Final = TO_WHOM | {"id", "delay", "at"}  # what most tasks say
PLAIN_ARGS_MAX: Final = 16  # that are looked at one by one
PLAIN_CHARS_MAX: Final = 1_000
INT_MAX: Final = 2**53 - 1
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)  # not in the zone of a moment: within one, clocks are subtracted


def draft(handler: Handler, wishes: Mapping[str, Any], task_id: object, now: int, partitions: int) -> Task:
    """Make a task for a handler, or say what is wrong with it."""
    name = _id(task_id)
    partition = partition_of(name, partitions)
    args = wishes.get("args") or {}
    for said in wishes:
        if said not in USUAL:
            break
    else:
        first = _first(wishes, ONCE, now)
        return Task(
            id=name,
            handler=handler.name,
            args=_plain(args) or _checked(args, None),
            retry=handler.retry,
            timeout_ms=handler.timeout_ms,
            partition=partition,
            run_at=first,
            occurrence_at=first,
            created_at=now,
        )
    unknown = wishes.keys() - WISHES - TO_WHOM
    if unknown:
        raise InvalidTask(f"a task has no {min(unknown)!r}; it has {', '.join(sorted(WISHES))}")
    unusual = _unusual(wishes, handler.retry, handler.timeout_ms)
    first = _first(wishes, unusual["trigger"], now)
    return Task(
        id=name,
        handler=handler.name,
        args=_checked(args, unusual["meta"]),
        partition=partition,
        run_at=first,
        occurrence_at=first,
        created_at=now,
        **unusual,
    )


def _unusual(wishes: Mapping[str, Any], retry: RetryPolicy, timeout_ms: int) -> dict[str, Any]:
    """Return the fields of a task that are not as usual; a policy and a timeout stand for what is not said."""
    trigger = _trigger(wishes)
    times = wishes.get("times", 1 if isinstance(trigger, Once) else -1)
    if times != -1 and times < 1:
        raise InvalidTask(f"times is how often it is due, at least 1, or -1 for ever, not {times!r}")
    priority = wishes.get("priority", 0)
    if not -PRIORITY_MAX <= priority <= PRIORITY_MAX:
        raise InvalidTask(f"a priority is from {-PRIORITY_MAX} to {PRIORITY_MAX}, not {priority!r}")
    if "timeout" in wishes:
        timeout_ms = to_ms(wishes["timeout"])
    if timeout_ms < 1:
        raise InvalidTask("a run needs some time; timeout cannot be 0")
    expires_at = wishes.get("expires_at")
    return {
        "meta": wishes.get("meta", {}),
        "tags": _tags(wishes.get("tags", [])),
        "trigger": trigger,
        "retry": _retry(wishes, retry),
        "late": _late(wishes),
        "timeout_ms": timeout_ms,
        "priority": priority,
        "times": times,
        "at_most_once": wishes.get("at_most_once", False),
        "expires_at": None if expires_at is None else moment_of(expires_at),
        "webhook": check_webhook(wishes["webhook"]) if "webhook" in wishes else None,
    }


def amended(task: Task, args: Mapping[str, Any] | None, wishes: Mapping[str, Any], now: int) -> Task:
    """Return a task that waits as it is to be from now on: what is not said stays as it is."""
    said = wishes.keys()
    if not said <= WISHES - {"id"}:
        raise InvalidTask(
            f"{min(said - WISHES | said & {'id'})!r} of a task cannot be changed; its times and policies can"
        )
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
        changed["run_at"] = changed["occurrence_at"] = _first(wishes, changed.get("trigger", task.trigger), now)
        changed["failures"] = 0  # another time is another occurrence
    if args is not None or "meta" in said:
        meta = changed.get("meta", task.meta)
        changed["args"] = _checked(task.args if args is None else args, meta)
    return msgspec.structs.replace(task, **changed)


def _tags(tags: object) -> list[str]:
    """Return tags without repetitions."""
    if not isinstance(tags, (list, tuple)) or len(tags) > TAGS_MAX:
        raise InvalidTask(f"tags are a list of at most {TAGS_MAX} words")
    for tag in tags:
        if not isinstance(tag, str) or not 1 <= len(tag) <= TAG_CHARS_MAX:
            raise InvalidTask(f"a tag is text of 1 to {TAG_CHARS_MAX} characters, not {tag!r:.100}")
    return list(dict.fromkeys(tags))


def _id(task_id: object) -> str:
    if not isinstance(task_id, str) or not 1 <= len(task_id) <= NAME_CHARS_MAX:
        raise InvalidTask(f"an id is text of 1 to {NAME_CHARS_MAX} characters, not {task_id!r}")
    return task_id


def partition_of(task_id: str, partitions: int) -> int:
    """Return the partition of an id: the same everywhere and for ever."""
    return crc32(task_id.encode()) % partitions


def to_ms(duration: Duration) -> int:
    """Return a duration in milliseconds, rounded up."""
    return -(-to_ns(duration) // 1_000_000)


def _trigger(wishes: Mapping[str, Any]) -> Trigger:
    if "every" in wishes and "cron" in wishes:
        raise InvalidSchedule("a task is due at every interval or by a cron expression, not both")
    if "tz" in wishes and "cron" not in wishes:
        raise InvalidSchedule("tz goes with cron; a datetime brings its own time zone")
    if "every" in wishes:
        return Every(interval_ms=to_ms(wishes["every"]))
    if "cron" in wishes:
        return Cron(expression=wishes["cron"], tz=wishes.get("tz", "UTC"))
    return ONCE


def _first(wishes: Mapping[str, Any], trigger: Trigger, now: int) -> int:
    """Return when a task is due for the first time."""
    if "delay" in wishes:
        if "at" in wishes:
            raise InvalidSchedule("a task has a delay or a time, not both")
        return now + to_ms(wishes["delay"])
    if "at" in wishes:
        return moment_of(wishes["at"])
    if isinstance(trigger, Once):
        return now
    first = trigger.next_after(now)
    if first is None:
        raise InvalidSchedule(f"{trigger} is never due again")
    return first


def moment_of(at: object) -> int:
    """Return a moment in milliseconds since 1970, rounded up."""
    if not isinstance(at, datetime) or at.tzinfo is None:
        raise InvalidSchedule(f"a time has a time zone: datetime(…, tzinfo=ZoneInfo('Europe/Berlin')), not {at!r}")
    since = at - EPOCH
    return (
        -(-since // timedelta(milliseconds=1))
        if since % timedelta(milliseconds=1)
        else since // timedelta(milliseconds=1)
    )


def _retry(wishes: Mapping[str, Any], usual: RetryPolicy) -> RetryPolicy:
    if "retry" in wishes and "retries" in wishes:
        raise InvalidTask("give retries, or a whole RetryPolicy as retry, not both")
    if "retries" in wishes:
        return msgspec.structs.replace(usual, retries=wishes["retries"])
    policy: RetryPolicy = wishes.get("retry", usual)
    return policy


def _late(wishes: Mapping[str, Any]) -> LatePolicy:
    late = wishes.get("late", RUN_ONCE)
    return late if isinstance(late, LatePolicy) else LatePolicy(mode=late)


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
        return len(value) <= PLAIN_CHARS_MAX and value.isascii()
    return type(value) is int and -INT_MAX <= value <= INT_MAX


def _checked(args: Mapping[str, Any], meta: dict[str, str] | None) -> dict[str, Any]:
    """Return the arguments as they will come out of a store again."""
    given: object = args  # whatever it is declared to be
    try:
        written = msgspec.json.encode(args)
        size_bytes = len(written) + (len(msgspec.json.encode(meta)) if meta else 0)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidTask(f"the arguments of a task are kept as JSON: {error}") from None
    if size_bytes > PAYLOAD_BYTES_MAX:
        raise PayloadTooLarge("the arguments", size_bytes, PAYLOAD_BYTES_MAX)
    if isinstance(given, Mapping):
        read: dict[str, Any] = msgspec.json.decode(written)
        if read.keys() == given.keys():  # otherwise a name that is no text came back as one
            return read
    raise InvalidTask(f"the arguments of a task are a dict of names and values, not {args!r}")
