"""Every error tickwheel raises: one tree under `TickwheelError`.

Each also inherits the builtin a caller would catch, carries what it is about as fields, and says
what to do:

    >>> from tickwheel.wheels import HashedWheel
    >>> HashedWheel(slots=60).start(1.5)
    Traceback (most recent call last):
    tickwheel.errors.NotWholeTicks: delay must be a whole number of ticks, not 1.5 (float); ...
"""

import re
from collections.abc import Hashable, Sequence
from difflib import get_close_matches
from reprlib import Repr
from typing import Any, Self, cast

__all__ = [
    "AddressRefused",
    "AsyncCallback",
    "AsyncLoader",
    "BatchTooLarge",
    "BlockingCall",
    "BrokenWheel",
    "CoroutineNotAwaited",
    "DelayOutOfRange",
    "DuplicateHandler",
    "DuplicateKey",
    "DuplicateTask",
    "Fail",
    "FarSchedulerUnfit",
    "ForeignTimer",
    "ForeignWorkers",
    "ForgottenCoroutine",
    "HandMovedBack",
    "InstanceStuck",
    "InvalidArguments",
    "InvalidBlock",
    "InvalidCache",
    "InvalidClock",
    "InvalidConfig",
    "InvalidCron",
    "InvalidCursor",
    "InvalidDuration",
    "InvalidExecutor",
    "InvalidFilter",
    "InvalidGeometry",
    "InvalidLease",
    "InvalidLimit",
    "InvalidOption",
    "InvalidProcess",
    "InvalidResult",
    "InvalidRule",
    "InvalidSchedule",
    "InvalidSecret",
    "InvalidSignature",
    "InvalidTask",
    "InvalidTimers",
    "InvalidWeight",
    "InvalidWorkers",
    "LeaseLost",
    "LengthMismatch",
    "MissingCallback",
    "MissingExtra",
    "MissingRule",
    "NoQueuesHere",
    "NoRunningLoop",
    "NotATimer",
    "NotCopyable",
    "NotWholeTicks",
    "PayloadTooLarge",
    "ProcessDied",
    "RecursiveLoad",
    "ResultTooLarge",
    "RetryAfter",
    "RunCancelled",
    "RunFailed",
    "RunNotBegun",
    "RunTimedOut",
    "SchedulerForked",
    "SchedulerNotStarted",
    "SchedulerOnOtherLoop",
    "SchemaTooNew",
    "ServerAway",
    "ServerRefused",
    "Snooze",
    "StoreClosed",
    "StoreError",
    "StoreFileInUse",
    "StoreUnavailable",
    "TaskFinished",
    "TaskRunning",
    "TaskUnreadable",
    "TickwheelError",
    "TimerNotFired",
    "TimerStopped",
    "TimersStopped",
    "TooManyLeases",
    "TooManyTimers",
    "Unhashable",
    "UnknownHandler",
    "UnknownInstance",
    "UnknownOption",
    "UnknownProcess",
    "UnknownStore",
    "UnknownTask",
    "UnknownWorkItem",
    "UnnamedHandler",
    "UnstableKey",
    "VersionMismatch",
    "WebhookFailed",
    "WheelClosed",
    "WorkerNotStarted",
    "WorkersClosed",
    "WorkersFull",
    "hint",
    "shown",
]

# What fits into one line of a log with the sentence around it.
SHOWN_CHARS_MAX = 80

# Python refuses to print integers of more digits than an option of it says, and takes long for many.
SHOWN_BITS_MAX = 2048
SHOWN_ITEMS_MAX = 10  # of a container, and of those in it; more would not fit anyway
NAME_CHARS_MAX = 255  # that a name may have


class TickwheelError(Exception):
    """The root of everything tickwheel raises on purpose."""

    field: str | None = None  # the argument or option that is wrong, if it is one

    def within(self, field: str) -> Self:
        """Return this error with the field it is about; the first one who names it is right."""
        if self.field is None:
            self.field = field
            self.args = (f"{field}: {self}",)
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        # An exception is unpickled by calling its class with its words; ours are made from what they are about.
        return rebuild, (type(self), self.args, self.__dict__)


class MissingExtra(TickwheelError, ImportError):
    """A part of tickwheel stands on packages that are not installed."""

    def __init__(self, part: str, package: str, extra: str) -> None:
        self.part = part
        self.package = package
        self.extra = extra
        super().__init__(f"{part} need {package}, which is not installed: pip install 'tickwheel[{extra}]'")


_shortened = Repr()
_shortened.maxlist = _shortened.maxtuple = _shortened.maxdict = _shortened.maxset = SHOWN_ITEMS_MAX
_shortened.maxfrozenset = SHOWN_ITEMS_MAX
_shortened.maxstring = _shortened.maxother = _shortened.maxlong = SHOWN_CHARS_MAX


def shown(value: object) -> str:
    """Return a value as a message shows it: shortened to a line, also if it cannot be printed."""
    kind = type(value)
    if issubclass(kind, int) and int.bit_length(cast("int", value)) > SHOWN_BITS_MAX:  # runs no code of it
        return f"<{kind.__name__} too large to print>"
    if hasattr(kind, "__dataclass_fields__"):  # it would print all that it consists of
        return f"<{kind.__name__}>"
    try:
        if issubclass(kind, (str, bytes, bytearray)) and len(cast("str", value)) > SHOWN_CHARS_MAX:
            text = repr(cast("str", value)[: SHOWN_CHARS_MAX + 1])
        elif kind in (list, tuple, dict, set, frozenset):
            text = _shortened.repr(value)
        else:
            text = repr(value)
    except Exception:  # noqa: BLE001 - what the caller did wrong is told all the same
        return f"<{kind.__name__}, whose repr() fails>"
    return text if len(text) <= SHOWN_CHARS_MAX else f"{text[: SHOWN_CHARS_MAX - 3]}..."


def closest(name: str, known: Sequence[str]) -> str | None:
    """Return which name was probably meant; None if there is none like it, or it is longer than any name."""
    if len(name) > NAME_CHARS_MAX:
        return None
    return next(iter(get_close_matches(name, known, n=1)), None)


def hint(name: str, known: Sequence[str]) -> str:
    """Say which name was probably meant, or which there are."""
    near = closest(name, known)
    return f"there are {', '.join(known)}" if near is None else f"did you mean {near!r}?"


def rebuild(kind: type[BaseException], args: tuple[Any, ...], fields: dict[str, Any]) -> BaseException:
    """Make an exception again as it was, without going through its constructor."""
    base: Any = kind
    while base.__module__ != "builtins":  # the one that decides how an instance is laid out: OSError has more fields
        base = base.__base__
    error: BaseException = base.__new__(kind, *args)
    error.args = args
    error.__dict__.update(fields)
    return error


class InvalidGeometry(TickwheelError, ValueError):
    """These levels cannot form a wheel."""


class InvalidCache(TickwheelError, ValueError):
    """No cache can be like that."""


class InvalidWeight(TickwheelError, ValueError):
    """The weigher of a cache returned something that is not a weight, or the item is too heavy for the cache."""

    def __init__(self, key: object, weight: object, maxsize: int) -> None:
        self.key = key
        self.weight = weight
        self.maxsize = maxsize
        super().__init__(
            f"invalid weight {shown(weight)} of the item with key {shown(key)}: expected an int from 0 to maxsize "
            f"({shown(maxsize)}); raise maxsize, or do not cache it"
        )


class UnstableKey(TickwheelError, RuntimeError):
    """A key of a cache compares differently each time, or uses the cache each time it is compared."""

    def __init__(self, key: object) -> None:
        self.key = key
        super().__init__(
            f"cannot set an item: keys of type {type(key).__qualname__!r} compare inconsistently, or change the cache "
            "while they are compared; fix their __eq__"
        )


class InvalidBlock(TickwheelError, TypeError):
    """`put` of a `DelayQueue` was given something else for `block` than True or False, such as a delay."""

    def __init__(self, given: object) -> None:
        self.given = given
        super().__init__(f"invalid block {shown(given)}: expected True or False; pass a delay by name, as delay=...")


class InvalidClock(TickwheelError, TypeError):
    """Something other than a clock was given."""

    def __init__(self, given: object) -> None:
        self.given = given
        super().__init__(f"invalid clock {shown(given)}: expected one whose monotonic_ns() returns an int")


class InvalidTimers(TickwheelError, TypeError):
    """Something other than a set of timers was given."""

    def __init__(self, given: object) -> None:
        self.given = given
        super().__init__(f"invalid timers {shown(given)}: expected Timers, AsyncTimers or ManualTimers")


class RecursiveLoad(TickwheelError, RuntimeError):
    """A loader of a cache waits for its own result."""

    def __init__(self, key: object) -> None:
        self.key = key
        super().__init__(
            f"the loader of key {shown(key)} waits for its own result; do not call get_or_load for a key while it is "
            "loaded"
        )


class AsyncLoader(TickwheelError, TypeError):
    """The loader of a cache returned a coroutine, which can be awaited only once."""

    def __init__(self, key: object) -> None:
        self.key = key
        super().__init__(
            f"the loader of key {shown(key)} returned a coroutine, which was closed without running and is not cached; "
            "use a loader that returns the value"
        )


class AsyncCallback(TickwheelError, TypeError):
    """A coroutine function was given for a callback that is called without an event loop to await it."""

    def __init__(self, argument: str, given: object, instead: str = "use a plain function") -> None:
        self.argument = argument
        self.given = given
        super().__init__(
            f"invalid {argument} {shown(given)}: what a coroutine function returns would never be awaited; {instead}"
        )


class InvalidConfig(TickwheelError, ValueError):
    """No server can be like that."""


class InvalidDuration(TickwheelError, ValueError):
    """Invalid duration."""

    def __init__(self, duration: object, why: str) -> None:
        self.duration = duration
        super().__init__(f"invalid duration {shown(duration)}: {why}")


class NotWholeTicks(TickwheelError, TypeError):
    """A tick count was given as something other than an `int`."""

    def __init__(self, what: str, value: object) -> None:
        self.what = what
        self.value = value
        super().__init__(
            f"{what} must be a whole number of ticks, not {shown(value)} ({type(value).__name__}); "
            f"round it up to an int, so that the timer cannot fire early"
        )


SLOTS_MAX = 65_536  # of a dial (wheels/geometry.py): a wheel that holds longer delays holds all that can be counted


class DelayOutOfRange(TickwheelError, ValueError):
    """The delay is negative, longer than this wheel can hold, or leads beyond its last tick."""

    def __init__(self, delay: int, delay_max: int) -> None:
        self.delay = delay
        self.delay_max = delay_max
        super().__init__(
            f"delay {shown(delay)} is negative; a timer cannot be due in the past, use 0 for 'as soon as possible'"
            if delay < 0
            else f"delay {shown(delay)} cannot be reached: the wheel stands on the last tick it can count to; "
            "make a new wheel"
            if delay_max < 1
            else f"delay {shown(delay)} is longer than the {delay_max} ticks this wheel can hold; "
            f"use a larger wheel, or HierarchicalWheel, which takes any delay"
            if delay_max <= SLOTS_MAX
            else f"delay {shown(delay)} is longer than the {delay_max} ticks that are left for any wheel to count; "
            "use a shorter delay, or a geometry with a longer tick"
        )


class HandMovedBack(TickwheelError, ValueError):
    """A wheel was asked to advance to a tick it has already passed."""

    def __init__(self, now: int, to: int) -> None:
        self.now = now
        self.to = to
        super().__init__(
            f"the hand stands on tick {now} and cannot go back to {to}; read a clock that only goes forward"
        )


class InvalidLimit(TickwheelError, ValueError):
    """A limit on how many to hand out must be at least one, and at most what one answer holds."""

    field = "limit"

    def __init__(self, limit: object, most: int | None = None) -> None:
        self.limit = limit
        self.most = most
        super().__init__(
            f"limit must be an int of at least 1, not {shown(limit)}; leave it out to take every due timer"
            if most is None
            else f"limit must be an int from 1 to {most:,}, not {shown(limit)}; ask again for what lies beyond"
        )


class LengthMismatch(TickwheelError, ValueError):
    """A bulk start was given more delays than payloads, or fewer."""

    def __init__(self, delays: int, payloads: int) -> None:
        self.delays = delays
        self.payloads = payloads
        super().__init__(f"{delays} delays but {payloads} payloads; nothing was started, give one payload a delay")


class NotATimer(TickwheelError, TypeError):
    """Something that is not a timer was given where a timer belongs."""

    def __init__(self, value: object) -> None:
        self.value = value
        super().__init__(f"{shown(value)} is not a Timer; pass what start() returned, or use find(key)")


class NotCopyable(TickwheelError, TypeError):
    """Something that timers are linked to cannot be copied or pickled."""

    def __init__(self, value: object, instead: str) -> None:
        self.type_name = type(value).__name__  # not the value: a process that cannot pickle it has to send this error
        super().__init__(f"{shown(value)} cannot be copied or pickled: its timers are linked to each other; {instead}")


class DuplicateKey(TickwheelError, ValueError):
    """A pending timer, or something that is watched, already has this key."""

    def __init__(
        self, key: Hashable, remedy: str = "stop or restart it, or choose another key", *, watched: bool = False
    ) -> None:
        self.key = key
        super().__init__(
            f"key {shown(key)} is already watched; touch it, or forget it first"
            if watched
            else f"a timer with key {shown(key)} is pending; {remedy}"
        )


class ForeignTimer(TickwheelError, ValueError):
    """The timer is pending in another wheel, a driver's, or fired in a scheme that this one cannot take it from."""

    def __init__(self, timer: object, why: str = "is pending in another wheel; stop or restart it there") -> None:
        self.timer = timer
        super().__init__(f"{shown(timer)} {why}")


class TimerStopped(TickwheelError, RuntimeError):
    """A timer that was stopped, or whose payload was taken, cannot be restarted."""

    def __init__(self, timer: object) -> None:
        self.timer = timer
        super().__init__(f"{shown(timer)} was stopped and has dropped its payload; start a new timer instead")


class TimerNotFired(TickwheelError, RuntimeError):
    """Only a timer that has fired gives up its payload."""

    def __init__(self, timer: object) -> None:
        self.timer = timer
        super().__init__(f"{shown(timer)} has not fired; take() is for timers that advance() has handed out")


class WheelClosed(TickwheelError, RuntimeError):
    """The wheel was closed and takes no more timers."""

    def __init__(self) -> None:
        super().__init__("the wheel is closed; make a new one")


class InvalidSchedule(TickwheelError, ValueError):
    """No way for a timer to repeat, or for time to pass."""


class MissingCallback(TickwheelError, TypeError):
    """Nothing that can be called was given where a function is needed."""

    def __init__(self, given: object = None, argument: str = "") -> None:
        self.given = given
        super().__init__(
            f"invalid {argument} {shown(given)}: expected a function"
            if argument
            else "a timer without a callback needs timers made with job=..., which is then called with its key"
            if given is None
            else f"{shown(given)} cannot be called; pass a function and its arguments"
        )


class CoroutineNotAwaited(TickwheelError, TypeError):
    """A callback returned a coroutine where no event loop could run it."""

    def __init__(self, callback: str) -> None:
        self.callback = callback
        super().__init__(
            f"timer callback {callback} returned a coroutine, which was closed without running; "
            f"use AsyncTimers for coroutine functions"
        )


class InvalidExecutor(TickwheelError, TypeError):
    """An executor that cannot run timer callbacks."""

    def __init__(self, executor: object, why: str) -> None:
        self.executor = executor
        super().__init__(f"{type(executor).__name__} cannot run timer callbacks: {why}")


class InvalidOption(TickwheelError, ValueError):
    """An option has a value that cannot work."""

    def __init__(self, name: str, value: object, expected: str) -> None:
        self.name = self.field = name
        self.value = value
        super().__init__(f"{name} must be {expected}, not {shown(value)}")


class Unhashable(TickwheelError, TypeError):
    """A key or group cannot be hashed."""

    def __init__(self, name: str, value: object) -> None:
        self.name = self.field = name
        self.value = value
        super().__init__(f"{name} must be hashable, such as a str, an int or a tuple, not {shown(value)}")


class NoRunningLoop(TickwheelError, RuntimeError):
    """Something for an event loop was made outside of one."""

    def __init__(self, what: str) -> None:
        self.what = what
        super().__init__(f"no running event loop: make {what} inside a coroutine, or pass loop=")


class TimersStopped(TickwheelError, RuntimeError):
    """The timers were stopped for good."""

    def __init__(self) -> None:
        super().__init__("these timers were stopped and take no more; make new ones")


class TooManyTimers(TickwheelError, RuntimeError):
    """More timers are pending than the set allows."""

    def __init__(self, pending_max: int) -> None:
        self.pending_max = pending_max
        super().__init__(f"{pending_max} timers are pending; cancel what is not needed, or raise pending_max")


class UnknownOption(TickwheelError, TypeError):
    """There is no option of this name."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        self.name = name
        self.known = known
        self.field = name.partition("=")[0]
        super().__init__(f"there is no option {shown(name)}; {hint(name, known)}")


class BrokenWheel(TickwheelError, AssertionError):
    """`check()` found a wheel that contradicts itself: a bug in tickwheel, or two threads in one wheel."""


# -- durable tasks


class InvalidCron(TickwheelError, ValueError):
    """Not a cron expression, or not a time zone."""

    def __init__(self, expression: str, why: str) -> None:
        self.expression = expression
        super().__init__(
            f"{shown(expression)}: {why}; a cron expression is like '0 9 * * 1-5' (minute hour day month weekday)"
        )


class InvalidTask(TickwheelError, ValueError):
    """A task cannot be like that."""


class BatchTooLarge(TickwheelError, ValueError):
    """More tasks in one call than one transaction should hold."""

    field = "tasks"

    def __init__(self, size: int, most: int) -> None:
        self.size = size
        self.most = most
        super().__init__(f"{size:,} tasks: at most {most:,} tasks per call; split the batch")


class PayloadTooLarge(TickwheelError, ValueError):
    """The arguments of a task, or its result, take too much room; `size_bytes` is None if not all was counted."""

    def __init__(self, what: str, size_bytes: int | None, most_bytes: int) -> None:
        self.size_bytes = size_bytes
        self.most_bytes = most_bytes
        size = f"more than {most_bytes:,} bytes" if size_bytes is None else f"{size_bytes:,} bytes"
        super().__init__(
            f"{what} take {size}, and {most_bytes:,} are the most; keep the data elsewhere and pass its name"
        )


class UnknownHandler(TickwheelError, LookupError):
    """No handler of this name is registered in this process."""

    field = "handler"

    def __init__(self, name: str, known: Sequence[str]) -> None:
        self.name = name
        named_after_it = (other for other in known if other.endswith(f":{name}"))  # a function, with its module
        near = next(named_after_it, None) or closest(name, known)
        advice = f"did you mean {near!r}?" if near else "register it with @scheduler.task(name)"
        super().__init__(f"no handler {shown(name)} here; {advice}")


class UnnamedHandler(TickwheelError, ValueError):
    """A function that cannot be found again by name after a restart."""

    field = "handler"

    def __init__(self, function: object) -> None:
        self.function = function
        super().__init__(
            f"{shown(function)} has no name that another process could find it by; define it at the top of a module "
            "and register it with @scheduler.task(name)"
        )


class DuplicateHandler(TickwheelError, ValueError):
    """Two functions want one name."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"there is a handler {shown(name)} already; give this one another name")


class DuplicateTask(TickwheelError, ValueError):
    """A task with this id is in the store, and has neither failed nor been cancelled."""

    def __init__(self, task: Any, *, unreadable: bool = False, in_batch: bool = False) -> None:
        self.task = task  # the one that is there, or comes first in the batch
        self.task_id: str = task.id
        super().__init__(
            f"there is a task {shown(task.id)} already, which this version cannot read; delete it, or choose another id"
            if unreadable
            else f"id {shown(task.id)} is in this batch more than once; nothing was added, give each task its own id"
            if in_batch
            else f"there is a task {shown(task.id)} already ({task.status}); on_conflict='keep' returns it, 'replace' "
            "puts the new one in its place, 'debounce' gives it the new time and arguments"
        )


class UnknownTask(TickwheelError, LookupError):
    """No task has this id."""

    def __init__(self, task_id: str) -> None:
        self.task_id = task_id
        super().__init__(f"there is no task {shown(task_id)}; it may have been purged")


class TaskRunning(TickwheelError, RuntimeError):
    """What was asked for cannot be done while the task runs."""

    def __init__(self, task_id: str) -> None:
        self.task_id = task_id
        super().__init__(f"task {shown(task_id)} is running; cancel it, or wait until it is done")


class TaskFinished(TickwheelError, RuntimeError):
    """What was asked for cannot be done to a task that is over."""

    def __init__(self, task_id: str, status: str) -> None:
        self.task_id = task_id
        self.status = status
        super().__init__(f"task {shown(task_id)} is {status}; retry it, or add it again")


class VersionMismatch(TickwheelError, RuntimeError):
    """Somebody changed the task since it was read."""

    def __init__(self, task_id: str, version: int) -> None:
        self.task_id = task_id
        self.version = version
        super().__init__(f"task {shown(task_id)} was changed meanwhile and has version {version} now; read it again")


class TaskUnreadable(TickwheelError, RuntimeError):
    """The stored data of a task cannot be read by this version of tickwheel."""

    def __init__(self, task_id: str, why: str) -> None:
        self.task_id = task_id
        self.why = why
        super().__init__(
            f"task {shown(task_id)} cannot be read by this version of tickwheel ({why}): it is kept and does not run "
            "here; upgrade this process if a newer version wrote it, or delete it"
        )


class StoreError(TickwheelError, RuntimeError):
    """A store could not do what it was asked to; nothing of that call was acknowledged."""


class StoreUnavailable(StoreError):
    """A store cannot be reached, opened or written; try again when that is mended."""


class StoreFileInUse(StoreError, OSError):
    """Other code is about to open a file that a store in this process has open."""

    def __init__(self, path: str, opened_by: str) -> None:
        self.path = path
        self.opened_by = opened_by
        super().__init__(
            f"{path} is open as a store in this process and cannot be opened by {opened_by}: closing it again would "
            "drop the file locks of the store, and tasks would be lost; list tasks with scheduler.list() or a "
            'tickwheel command, and read or copy the file from another process (sqlite3 FILE ".backup COPY")'
        )


class StoreClosed(StoreError):
    """A store was closed."""

    def __init__(self) -> None:
        super().__init__("this store was closed; open it again")


class SchemaTooNew(StoreError):
    """A store was written by a newer tickwheel."""

    def __init__(self, found: int, known: int) -> None:
        self.found = found
        self.known = known
        super().__init__(f"the store has schema {found}, this tickwheel knows schemas up to {known}: upgrade tickwheel")


class SchedulerNotStarted(TickwheelError, RuntimeError):
    """The scheduler is not started."""

    def __init__(self, *, stopped: bool = False, broken: bool = False) -> None:
        self.stopped = stopped
        self.broken = broken
        super().__init__(
            "the event loop of this scheduler ended by an error, which was logged; restart this program"
            if broken
            else "this scheduler was stopped; call start() to use it again"
            if stopped
            else "this scheduler is not started; use it in a `with` block (`async with` for AsyncScheduler), "
            "or call start() first"
        )


class BlockingCall(TickwheelError, RuntimeError):
    """A method of `Scheduler` was called on its own event loop, which would wait for itself."""

    def __init__(self, method: str) -> None:
        self.method = method
        super().__init__(
            f"Scheduler.{method}() was called on the scheduler's own event loop, where it would block for ever; "
            f"in async handlers use `await scheduler.inner.{method}(...)`, and in event listeners another thread"
        )


class SchedulerForked(TickwheelError, RuntimeError):
    """An `AsyncScheduler` that was started before a fork is used in the child."""

    def __init__(self, process: int) -> None:
        self.process = process
        super().__init__(
            f"this AsyncScheduler was started in process {process} and cannot be used in a forked child of it; "
            "start it after the fork, or use Scheduler, which starts afresh in the child"
        )


class SchedulerOnOtherLoop(TickwheelError, RuntimeError):
    """An `AsyncScheduler` is used on another event loop than the one it was started on."""

    def __init__(self, *, closed: bool = False) -> None:
        self.closed = closed  # the loop it was started on: nothing of it runs any more
        super().__init__(
            f"this AsyncScheduler was started on another event loop{', which is closed' if closed else ''}; start it, "
            "use it and stop it on one loop (within one asyncio.run()), or use the blocking Scheduler"
        )


class UnknownStore(TickwheelError, ValueError):
    """No store goes by this URL."""

    def __init__(self, url: str, known: Sequence[str] = (), why: str | None = None) -> None:
        self.url = re.sub(r"(?<=://)(?!/).*@", "***@", url, flags=re.DOTALL)  # no user, and no password
        reason = f"; URLs begin with {', '.join(known)}" if why is None else f": {why}"
        super().__init__(f"{shown(self.url)} is no store{reason}")


class InvalidFilter(TickwheelError, ValueError):
    """No tasks can be listed like that."""


class InvalidCursor(TickwheelError, ValueError):
    """Not a cursor of this store."""

    field = "cursor"

    def __init__(self, cursor: object) -> None:
        self.cursor = cursor
        super().__init__(f"{shown(cursor)} is not where a page ended; begin without a cursor")


# -- workers


class InvalidWorkers(TickwheelError, ValueError):
    """No workers can be like that."""


class InvalidArguments(TickwheelError, TypeError):
    """The arguments of a task are not those its handler takes."""

    def __init__(self, handler: str, task_id: str, missing: Sequence[str] = (), unexpected: Sequence[str] = ()) -> None:
        self.handler = handler
        self.task_id = task_id
        self.missing = list(missing)
        self.unexpected = list(unexpected)
        wrong = [
            f"{word} {', '.join(map(shown, names))}"
            for word, names in (("missing", missing), ("unexpected", unexpected))
            if names
        ]
        super().__init__(
            f"the arguments of task {shown(task_id)} do not fit handler {shown(handler)}: {'; '.join(wrong)}; "
            "nothing was run, add the task again with arguments named as the function's parameters"
        )


class InvalidResult(TickwheelError, TypeError):
    """The result of a handler cannot be stored."""

    def __init__(self, handler: str, task_id: str, why: str) -> None:
        self.handler = handler
        self.task_id = task_id
        super().__init__(
            f"the result of task {shown(task_id)} cannot be stored: {why}; handler {shown(handler)} has run and is not "
            "run again, let it return numbers, text, lists and dictionaries, or None"
        )


class ForgottenCoroutine(InvalidResult):
    """A plain function returned a coroutine, which nobody awaits: a wrapper around an async function, mostly."""

    def __init__(self, handler: str, task_id: str) -> None:
        self.handler = handler
        self.task_id = task_id
        TickwheelError.__init__(
            self,
            f"handler {shown(handler)} of task {shown(task_id)} returned a coroutine that nobody awaits, so what is in "
            "it was not run; register an async function, and make a wrapper around one async as well",
        )


class ResultTooLarge(InvalidResult):
    """The result of a handler takes more room than there is; `size_bytes` is None if not all was counted."""

    def __init__(self, handler: str, task_id: str, size_bytes: int | None, most_bytes: int) -> None:
        self.size_bytes = size_bytes
        self.most_bytes = most_bytes
        size = f"more than {most_bytes:,} bytes" if size_bytes is None else f"{size_bytes:,} bytes"
        super().__init__(handler, task_id, f"it takes {size}, and {most_bytes:,} are the most")


class RunTimedOut(TickwheelError, TimeoutError):
    """A run took longer than its task allows."""

    def __init__(self, task_id: str, seconds: float) -> None:
        self.task_id = task_id
        self.seconds = seconds
        super().__init__(
            f"task {shown(task_id)} ran for longer than {seconds:g} s; make it shorter, or its timeout longer"
        )


class RunCancelled(TickwheelError, RuntimeError):
    """A run was told to stop: its task was cancelled, or the workers were closed."""

    def __init__(self, task_id: str, *, closing: bool = False) -> None:
        self.task_id = task_id
        self.closing = closing
        why = "the workers were closed and its time of grace is over" if closing else "the task was cancelled"
        super().__init__(f"the run of task {shown(task_id)} was cancelled: {why}")


class RunFailed(TickwheelError, RuntimeError):
    """A handler raised what cannot be raised again here: it would end the program, or cannot leave its process."""

    def __init__(self, handler: str, task_id: str, what: str) -> None:
        self.handler = handler
        self.task_id = task_id
        self.what = what
        super().__init__(f"handler {shown(handler)} of task {shown(task_id)} raised {what}")


class ProcessDied(TickwheelError, RuntimeError):
    """The process in which a run was made is gone, or was not ready to make it and was killed."""

    def __init__(
        self,
        handler: str,
        task_id: str,
        exit_code: int | None,
        signal: str | None = None,
        *,
        not_ready_s: float | None = None,
    ) -> None:
        self.handler = handler
        self.task_id = task_id
        self.exit_code = exit_code
        self.signal = signal
        self.not_ready_s = not_ready_s
        how = f"was killed by {signal}" if signal else f"ended with exit code {exit_code}"
        look_for = "a crash, os._exit() or too little memory"
        if not_ready_s is not None:
            how = f"was not ready to begin within {not_ready_s:g} s, and was killed"
            look_for = "an import that hangs or takes long, or a suspended process"
        super().__init__(
            f"the process that ran handler {shown(handler)} for task {shown(task_id)} {how}; another takes its place, "
            f"look for {look_for}"
        )


class WorkersFull(TickwheelError, RuntimeError):
    """As many runs as may be are running or waiting."""

    def __init__(self, queue_max: int) -> None:
        self.queue_max = queue_max
        super().__init__(f"{queue_max} runs are running or waiting; ask `free` before, or raise queue_max")


class WorkerNotStarted(TickwheelError, RuntimeError):
    """The system had no thread, process or file descriptor left for a run, which has not begun."""

    def __init__(self, pool: str, why: str) -> None:
        self.pool = pool
        self.why = why
        super().__init__(f"no worker could be started in pool {pool!r}: {why}; the task waits until one can be")


class WorkersClosed(TickwheelError, RuntimeError):
    """The workers were closed before this run began."""

    def __init__(self) -> None:
        super().__init__("these workers are closed, and this run was not begun; make new Workers()")


class RunNotBegun(TickwheelError, RuntimeError):
    """The claim of a task was no longer valid when its handler would have begun."""

    def __init__(self, task_id: str) -> None:
        self.task_id = task_id
        super().__init__(f"task {task_id!r}: its claim was no longer valid when a worker was free; it was not begun")


class ForeignWorkers(TickwheelError, RuntimeError):
    """Workers serve one event loop of one process."""

    def __init__(self) -> None:
        super().__init__("these workers belong to another event loop or another process; make new Workers() here")


class ServerAway(TickwheelError, ConnectionError):
    """No server answers."""

    def __init__(self, url: str, why: str) -> None:
        self.url = url
        super().__init__(f"nothing answers at {url} ({why}); is `tickwheel serve` running there?")


class ServerRefused(TickwheelError, RuntimeError):
    """A server says no."""

    def __init__(self, status: int, why: str) -> None:
        self.status = status
        super().__init__(f"the server refuses: {why} ({status})")


class RetryAfter(TickwheelError, RuntimeError):
    """Raise this from a handler to fail the run and set the wait before the next attempt; retries count as usual."""

    def __init__(self, delay: object, reason: str = "the run failed") -> None:
        self.delay = delay  # a Duration; checked when the run is over
        super().__init__(f"{reason}; retry after {shown(delay)}")


class Snooze(TickwheelError, RuntimeError):
    """Raise this from a handler to run again later without counting a failure."""

    def __init__(self, delay: object, reason: str = "snoozed") -> None:
        self.delay = delay  # a Duration; checked when the run is over
        super().__init__(f"{reason}; run again after {shown(delay)}")


class Fail(TickwheelError, RuntimeError):
    """Raise this from a handler to fail the occurrence without a retry; a recurring task goes on with its next one."""


# -- webhooks


class WebhookFailed(TickwheelError, RuntimeError):
    """A webhook was not taken: the receiver could not be reached, or answered with something else than 2xx."""


class AddressRefused(TickwheelError, PermissionError):
    """A webhook would go to an address inside, where only this machine or its neighbours should reach."""

    def __init__(self, host: str, address: str, kind: str) -> None:
        self.host = host
        self.address = address
        self.kind = kind
        super().__init__(
            f"{shown(host)} is at {address}, which is {kind}: webhooks do not go there, unless its network is allowed"
        )


class InvalidSecret(TickwheelError, ValueError):
    """Not a secret that webhooks can be signed with."""

    def __init__(self, why: str) -> None:
        super().__init__(f"{why}; a secret is 'whsec_' and the base64 of 24 to 64 random bytes: new_secret() makes one")


class InvalidSignature(TickwheelError, ValueError):
    """A webhook that was not signed by someone who has the secret, or not just now."""

    def __init__(self, why: str) -> None:
        super().__init__(f"this webhook is not to be trusted: {why}")


# -- queues


class InvalidLease(TickwheelError, ValueError):
    """Nothing can be leased like that."""


class NoQueuesHere(TickwheelError, RuntimeError):
    """Queues are read where tasks are run."""

    def __init__(self) -> None:
        super().__init__("this scheduler runs no tasks, or was not started: lease from one that does")


class LeaseLost(TickwheelError, RuntimeError):
    """A message is not leased with this token any more."""

    def __init__(self, task_id: str) -> None:
        self.task_id = task_id
        super().__init__(
            f"task {shown(task_id)} is not leased with this token: its lease ran out, it was cancelled, or it was "
            "acknowledged before; leave it alone, it is offered again if it has to be"
        )


class TooManyLeases(TickwheelError, RuntimeError):
    """As many messages as may be are leased."""

    def __init__(self, most: int) -> None:
        self.most = most
        super().__init__(f"{most:,} messages are leased already; acknowledge some, or wait until their leases run out")


# -- workflows and other schedulers


class InvalidRule(TickwheelError, ValueError):
    """No timeout of a work item can be like that."""


class MissingRule(TickwheelError, LookupError):
    """Nobody said what is to happen when a work item at this node is not done in time."""

    def __init__(self, node: str, known: Sequence[str]) -> None:
        self.node = node
        near = closest(node, known)
        advice = f"did you mean {near!r}?" if near else f"there are rules for {', '.join(known) or 'none'}"
        super().__init__(f"no TimeoutRule for node {shown(node)}; {advice}")


class UnknownWorkItem(TickwheelError, LookupError):
    """The workflow engine has no work item of this id."""

    def __init__(self, item_id: str) -> None:
        self.item_id = item_id
        super().__init__(f"there is no work item {shown(item_id)}; its instance may have been cleaned up")


class InvalidProcess(TickwheelError, ValueError):
    """A process that cannot be run, or whose timers cannot be relied on."""


class UnknownProcess(TickwheelError, LookupError):
    """No process of this name was deployed."""

    def __init__(self, process: str, known: Sequence[str]) -> None:
        self.process = process
        near = closest(process, known)
        advice = f"did you mean {near!r}?" if near else "deploy its BPMN file first"
        super().__init__(f"no process {shown(process)} here; {advice}")


class UnknownInstance(TickwheelError, LookupError):
    """There is no instance of a process with this id."""

    def __init__(self, instance_id: str) -> None:
        self.instance_id = instance_id
        super().__init__(f"there is no instance {shown(instance_id)}; it may have been cleaned up")


class InstanceStuck(TickwheelError, RuntimeError):
    """A process instance could not go on, and is as it was before; what is wrong is kept with it as its incident."""

    def __init__(self, instance_id: str, why: str) -> None:
        self.instance_id = instance_id
        self.why = why
        super().__init__(f"instance {shown(instance_id)} cannot go on: {why}")


class FarSchedulerUnfit(TickwheelError, RuntimeError):
    """Another scheduler cannot be trusted with tasks as it is."""
