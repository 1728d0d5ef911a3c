"""Whatever a caller gives: either an error naming the field and nothing written, or a task that reads back equal."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from enum import IntEnum, StrEnum
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tickwheel.errors import InvalidClock, InvalidOption, InvalidTask, TickwheelError, UnknownOption
from tickwheel.scheduler import AsyncScheduler, Scheduler
from tickwheel.tasks import LatePolicy, RetryPolicy, Task, Webhook
from tickwheel.webhooks import Webhooks

HUGE = 10**5000
CYCLE: list[Any] = []
CYCLE.append(CYCLE)
DEEP: Any = 1
for _ in range(2000):
    DEEP = [DEEP]


class Level(IntEnum):
    HIGH = 5


class Name(StrEnum):
    FIRST = "first"


class Text(str):
    __slots__ = ()


class Nowhere(tzinfo):
    """A time zone that does not know its offset."""

    def utcoffset(self, _: datetime | None) -> timedelta | None:
        return None

    dst = utcoffset

    def tzname(self, _: datetime | None) -> str | None:
        return None


WRONG: list[tuple[str, Any]] = [
    ("retry", 3),
    ("priority", True),
    ("priority", 2.0),
    ("priority", HUGE),
    ("priority", "high"),
    ("times", 2.5),
    ("times", True),
    ("times", 0),
    ("times", 2**31),
    ("retries", 1.5),
    ("retries", True),
    ("retries", HUGE),
    ("at_most_once", "no"),
    ("at_most_once", 1),
    ("meta", {"user": {1: 2}}),
    ("meta", {7: "user"}),
    ("meta", [("user", 7)]),
    ("meta", {"user": float("nan")}),
    ("meta", {"user": float("inf")}),
    ("meta", {"user": 10**400}),
    ("meta", {"user": HUGE}),
    ("meta", {"user": "\ud800"}),
    ("meta", {"us\0er": 7}),
    ("meta", {"user": CYCLE}),
    ("meta", {"user": DEEP}),
    ("meta", {"user": object()}),
    ("args", {"what": float("nan")}),
    ("args", {"what": {"deep": [float("-inf")]}}),
    ("args", {"what": 10**400}),
    ("args", {"what": HUGE}),
    ("args", {"what": "a\0b"}),
    ("args", {"what": "\udc00"}),
    ("args", {"what": CYCLE}),
    ("args", {"what": DEEP}),
    ("args", {"what": {1: 2}}),
    ("args", {"what": lambda: None}),
    ("args", False),
    ("args", 7),
    ("args", ""),
    ("id", "a\0b"),
    ("id", "\ud800"),
    ("id", None),
    ("tags", ["a\0b"]),
    ("tags", ["\ud800"]),
    ("tags", [7]),
    ("tags", 7),
    ("delay", float("nan")),
    ("delay", HUGE),
    ("delay", True),
    ("delay", [1]),
    ("at", "2027-01-01"),
    ("at", 7),
    ("at", datetime(2027, 1, 1, tzinfo=Nowhere())),
    ("at", datetime(1960, 1, 1, tzinfo=UTC)),
    ("expires_at", 7),
    ("expires_at", datetime(1960, 1, 1, tzinfo=UTC)),
    ("every", float("inf")),
    ("every", {}),
    ("cron", 7),
    ("cron", ["* * * * *"]),
    ("cron", "\ud800 * * * *"),
    ("timeout", None),
    ("timeout", float("nan")),
    ("late", 7),
    ("late", ["skip"]),
    ("webhook", 7),
    ("webhook", Webhook(url=7)),  # type: ignore[arg-type]
    ("webhook", {"url": "https://example.org", "headers": {"a": 7}}),
    ("queue", 7),
    ("queue", ["emails"]),
    ("prioritty", 5),
    ("on_conflict", ["keep"]),
    ("on_conflict", 7),
    ("on_conflict", HUGE),
]


@pytest.fixture(params=["memory", "sqlite"])
def scheduler(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Scheduler]:
    url = "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/tasks.db"
    with Scheduler(url, run=False) as scheduler:
        yield scheduler


def as_stored(task: Task) -> Task:
    """Return a task that waits without what is computed when it is read."""
    return replace(task, reason=None, reason_code=None)


def wished(field: str, value: Any) -> dict[str, Any]:
    return {field: value} if field in ("webhook", "queue") else {"handler": "note", field: value}


@pytest.mark.parametrize(("field", "value"), WRONG, ids=[field for field, _ in WRONG])
def test_a_wrong_field_is_named_and_nothing_is_written(scheduler: Scheduler, field: str, value: Any) -> None:
    with pytest.raises(TickwheelError) as raised:
        scheduler.add(**wished(field, value))
    assert raised.value.field == field
    assert len(str(raised.value)) < 600
    if field != "on_conflict":
        with pytest.raises(TickwheelError):
            scheduler.add_many([{"handler": "note"}, wished(field, value)])
    assert sum(scheduler.counts().values()) == 0


AMENDABLE = [each for each in WRONG if each[0] not in ("id", "webhook", "queue", "on_conflict")]


@pytest.mark.parametrize(("field", "value"), AMENDABLE, ids=[field for field, _ in AMENDABLE])
def test_a_wrong_change_is_named_and_changes_nothing(scheduler: Scheduler, field: str, value: Any) -> None:
    before = scheduler.add("note", {"what": "a"}, id="a", delay="1h")
    with pytest.raises(TickwheelError) as raised:
        scheduler.amend("a", **{field: value})
    assert raised.value.field == field
    assert as_stored(scheduler.get("a")) == before


@pytest.mark.parametrize(
    "when", [{"delay": True}, {"delay": HUGE}, {"at": 7}, {"at": datetime(1960, 1, 1, tzinfo=UTC)}]
)
def test_a_wrong_time_moves_nothing(scheduler: Scheduler, when: dict[str, Any]) -> None:
    before = scheduler.add("note", id="a", delay="1h")
    with pytest.raises(TickwheelError) as raised:
        scheduler.reschedule("a", **when)
    assert {raised.value.field} == when.keys()
    assert as_stored(scheduler.get("a")) == before


@pytest.mark.parametrize("task_id", [7, None, ["a"], {}])
def test_what_is_no_id_is_said_by_every_verb(scheduler: Scheduler, task_id: Any) -> None:
    verbs: list[Callable[[Any], Any]] = [
        scheduler.get,
        scheduler.history,
        scheduler.cancel,
        scheduler.pause,
        scheduler.resume,
        scheduler.retry,
        scheduler.run_now,
        scheduler.amend,
        scheduler.delete,
        lambda each: scheduler.reschedule(each, delay=1),
    ]
    for verb in verbs:
        with pytest.raises(TickwheelError) as raised:
            verb(task_id)
        assert raised.value.field == "id"


def test_a_reason_that_no_store_could_give_back_cancels_nothing(scheduler: Scheduler) -> None:
    scheduler.add("note", id="a", delay="1h")
    for reason in (7, "\ud800", "x" * 1001):
        with pytest.raises(TickwheelError) as raised:
            scheduler.cancel("a", reason)  # type: ignore[arg-type]
        assert raised.value.field == "reason"
    assert scheduler.get("a").status == "pending"


def test_an_unknown_field_gets_the_closest_spelling(scheduler: Scheduler) -> None:
    wishes: Any = {"prioritty": 5}
    with pytest.raises(TickwheelError, match=r"unknown field 'prioritty'; did you mean 'priority'\?"):
        scheduler.add("note", **wishes)


def test_an_unknown_choice_gets_the_closest_spelling(scheduler: Scheduler) -> None:
    wishes: Any = {"late": "run_al"}
    with pytest.raises(TickwheelError, match=r"invalid late 'run_al'.*did you mean 'run_all'\?"):
        scheduler.add("note", **wishes)


def test_subclasses_become_the_plain_type_and_read_back_equal(scheduler: Scheduler) -> None:
    task = scheduler.add(
        Text("note"),
        MappingProxyType({Name.FIRST: Level.HIGH, "text": Text("x"), "pair": (1, OrderedDict(a=Name.FIRST))}),
        id=Text("a"),
        delay="1h",
        priority=Level.HIGH,
        retries=Level.HIGH,
        times=Level.HIGH,
        every="1h",
        tags=[Name.FIRST, Text("b")],
        meta={"user": 7, "roles": ["admin"], "level": Level.HIGH},
        late=Text("skip"),  # type: ignore[arg-type]
    )
    assert task == as_stored(scheduler.get("a"))
    assert task.args == {"first": 5, "text": "x", "pair": [1, {"a": "first"}]}
    assert task.meta == {"user": 7, "roles": ["admin"], "level": 5}
    for plain in (task.id, task.handler, *task.tags, task.args["text"], task.late.mode):
        assert type(plain) is str
    for number in (task.priority, task.times, task.retry.retries, task.args["first"]):
        assert type(number) is int


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        (RetryPolicy, {"first_ms": 1e3}),
        (RetryPolicy, {"retries": True}),
        (RetryPolicy, {"retries": "3"}),
        (RetryPolicy, {"cap_ms": HUGE}),
        (RetryPolicy, {"factor": "2"}),
        (RetryPolicy, {"factor": True}),
        (RetryPolicy, {"jitter": None}),
        (RetryPolicy, {"age_ms": 1.0}),
        (LatePolicy, {"mode": 7}),
        (LatePolicy, {"mode": ["skip"]}),
        (LatePolicy, {"grace_ms": 1e3}),
        (LatePolicy, {"grace_ms": HUGE}),
        (LatePolicy, {"catch_up": True}),
    ],
)
def test_a_policy_names_the_field_that_is_wrong(kind: Any, wrong: dict[str, Any]) -> None:
    with pytest.raises(TickwheelError) as raised:
        kind(**wrong)
    assert {raised.value.field} == wrong.keys()


def test_numbers_of_a_policy_are_plain() -> None:
    policy = RetryPolicy(retries=Level.HIGH, factor=2, jitter=1)
    assert (type(policy.retries), type(policy.factor), type(policy.jitter)) == (int, float, float)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"retries": 1.5}, "retries"),
        ({"retries": True}, "retries"),
        ({"retry": 3}, "retry"),
        ({"retries": 3, "retry": RetryPolicy()}, "retries"),
        ({"timeout": "soon"}, "timeout"),
        ({"timeout": 0}, "timeout"),
        ({"timeout": [1]}, "timeout"),
        ({"concurrency": 1.5}, "concurrency"),
        ({"concurrency": True}, "concurrency"),
        ({"concurrency": 0}, "concurrency"),
        ({"pool": "threads"}, "pool"),
        ({"pool": ["thread"]}, "pool"),
        ({"name": 7}, "name"),
        ({"name": "a\0b"}, "name"),
        ({"name": "x" * 256}, "name"),
    ],
)
def test_a_handler_names_the_option_that_is_wrong(options: dict[str, Any], field: str) -> None:
    with pytest.raises(TickwheelError) as raised:
        AsyncScheduler("memory://").task(**options)(print)
    assert raised.value.field == field


@pytest.mark.parametrize(
    "options",
    [
        {"threads": "8"},
        {"threads": True},
        {"threads": 8.0},
        {"threads": -1},
        {"processes": 257},
        {"in_flight_max": 0},
        {"batch_max": 0},
        {"grace_s": float("nan")},
        {"grace_s": float("inf")},
        {"grace_s": "1"},
        {"retention_ms": -1},
        {"horizon_ms": HUGE},
        {"ahead_ms": 5_000},
        {"run": "no"},
        {"run": 1},
        {"rng": 7},
        {"webhooks": 7},
        {"webhooks": False},
        {"webhooks": "whsec_c2VjcmV0"},
        {"webhooks": Webhooks},
        {"webhooks": SimpleNamespace(handler="webhook", close=None)},
    ],
)
def test_an_option_of_a_scheduler_that_cannot_work_is_named(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidOption) as raised:
        AsyncScheduler("memory://", **options)
    assert {raised.value.field} == options.keys()


def test_a_secret_given_in_place_of_webhooks_is_not_shown() -> None:
    with pytest.raises(InvalidOption, match=r"webhooks must be a Webhooks, such as Webhooks\(secret\)") as raised:
        Scheduler("memory://", webhooks="whsec_c2VjcmV0")
    assert "c2VjcmV0" not in f"{raised.value} {raised.value.value}"


def test_an_option_that_there_is_not_gets_the_closest_spelling() -> None:
    with pytest.raises(UnknownOption, match=r"'lease_ttl'; did you mean 'lease_ttl_ms'\?") as raised:
        Scheduler("memory://", lease_ttl=3)
    assert raised.value.field == "lease_ttl"


def test_ten_thousand_and_one_tasks_are_too_many_for_one_call(scheduler: Scheduler) -> None:
    with pytest.raises(TickwheelError, match="at most 10,000 tasks per call; split the batch"):
        scheduler.add_many([{"handler": "note"}] * 10_001)
    assert sum(scheduler.counts().values()) == 0


def test_a_witness_that_spoils_a_task_is_told_and_nothing_is_written(scheduler: Scheduler) -> None:
    from contextlib import contextmanager  # noqa: PLC0415 - for this test alone

    from msgspec.structs import replace  # noqa: PLC0415

    @contextmanager
    def spoil(tasks: Any) -> Iterator[Any]:
        yield [replace(task, tags=[7]) for task in tasks]

    scheduler.events.attend(spoil)
    with pytest.raises(TickwheelError, match="could not be read again"):
        scheduler.add("note")
    assert sum(scheduler.counts().values()) == 0


# -- anything at all

HOSTILE: list[Any] = [HUGE, -HUGE, 2**63, 2**64, 10**400, Level.HIGH, Name.FIRST, Text("x"), Text("a\0"), object()]
HOSTILE += [CYCLE, DEEP]
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from(range(len(HOSTILE))).map(
        lambda number: HOSTILE[number]
    )  # by number: Hypothesis could not print them
    | st.floats()
    | st.text(max_size=8)
    | st.text(st.characters(), max_size=3)
    | st.binary(max_size=3)
    | st.datetimes(timezones=st.none() | st.just(UTC))
    | st.timedeltas()
    | st.decimals()
)
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner)
        | st.dictionaries(st.text(max_size=3) | st.integers(), inner, max_size=3)
    ),
    max_leaves=6,
)
LIKELY = {
    "id": st.text(max_size=5),
    "args": st.dictionaries(st.text(max_size=3), ANYTHING, max_size=3),
    "meta": st.dictionaries(st.text(max_size=3), ANYTHING, max_size=3),
    "tags": st.lists(st.text(max_size=5), max_size=3),
    "delay": st.floats(0, 1e6) | st.integers(0, 10**9) | st.timedeltas(timedelta(0)),
    "at": st.datetimes(datetime(1970, 1, 2), timezones=st.just(UTC)),  # noqa: DTZ001
    "every": st.floats(0.001, 1e6) | st.just("1h"),
    "cron": st.sampled_from(["* * * * *", "@daily", "0 9 * * 1-5", "* * *"]) | st.text("*/-,0159L# ", max_size=12),
    "tz": st.sampled_from(["UTC", "Europe/Berlin"]),
    "times": st.integers(-2, 5),
    "retries": st.integers(-1, 1001),
    "retry": st.builds(RetryPolicy, retries=st.integers(0, 9), factor=st.floats(1, 9) | st.integers(1, 9)),
    "late": st.sampled_from(["skip", "run_all", "never"]) | st.builds(LatePolicy, catch_up=st.integers(1, 9)),
    "timeout": st.floats(0, 100),
    "priority": st.integers(-1001, 1001),
    "at_most_once": st.booleans(),
    "expires_at": st.none() | st.datetimes(timezones=st.just(UTC)),
    "queue": st.text("abc._-", max_size=3),
    "webhook": st.just("https://example.org/hook") | st.text(max_size=5),
}
FIELDS = st.sets(st.sampled_from(sorted(LIKELY)), max_size=4).flatmap(
    lambda names: st.fixed_dictionaries({name: LIKELY[name] | ANYTHING for name in names})
)


@pytest.mark.slow
@pytest.mark.parametrize("where", ["memory", "sqlite"])
def test_anything_is_refused_with_our_error_or_reads_back_equal(where: str, tmp_path: Path) -> None:
    url = "memory://" if where == "memory" else f"sqlite:///{tmp_path}/tasks.db"

    async def main() -> None:
        async with AsyncScheduler(url, run=False) as scheduler:
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(None, lambda: try_all(scheduler, loop))

    asyncio.run(main())


def try_all(scheduler: AsyncScheduler, loop: asyncio.AbstractEventLoop) -> None:
    def call(work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, loop).result(30)

    @settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
    @given(FIELDS, FIELDS)
    def try_one(wishes: dict[str, Any], changes: dict[str, Any]) -> None:
        wanted = wishes if "queue" in wishes or "webhook" in wishes else {"handler": "note", **wishes}
        before = call(scheduler.counts())
        try:
            task = call(scheduler.add_one(wanted, on_conflict="replace")).task
        except TickwheelError:
            assert call(scheduler.counts()) == before
            return
        assert as_stored(call(scheduler.get(task.id))) == task
        args = changes.pop("args", None)
        try:
            after = call(scheduler.amend(task.id, args, **changes))
        except TickwheelError:
            after = task
        assert as_stored(call(scheduler.get(task.id))) == after
        call(scheduler.delete(task.id))

    try_one()


class Hostile(Exception):
    """What a class of the caller's raises."""


def hostile(kind: type, *methods: str) -> Any:
    """Make a subclass of a builtin type some of whose methods raise."""

    def refuse(*_: object, **__: object) -> Any:
        raise Hostile

    return type(f"Hostile{kind.__name__}", (kind,), dict.fromkeys(methods, refuse))


STR = hostile(str, "__len__", "encode", "__eq__", "__hash__", "__str__", "__repr__", "isascii", "__contains__")
DATETIME = hostile(datetime, "utcoffset", "timestamp", "__sub__", "__rsub__", "astimezone", "__repr__")
DICT = hostile(dict, "items", "__iter__", "get", "__contains__", "__repr__")
LIST = hostile(list, "__iter__", "__len__", "__repr__")
TIMEDELTA = hostile(timedelta, "__floordiv__", "total_seconds", "__repr__")
CLASSLESS = hostile(object, "__getattribute__", "__repr__")


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"args": DICT(a=1)}, "args"),
        ({"args": {"inner": DICT(a=1)}}, "args"),
        ({"args": {"inner": LIST([1])}}, "args"),
        ({"args": {"inner": CLASSLESS()}}, "args"),
        ({"args": CLASSLESS()}, "args"),
        ({"meta": DICT(a=1)}, "meta"),
        ({"tags": LIST(["a"])}, "tags"),
        ({"at": DATETIME(2040, 1, 1, tzinfo=UTC)}, "at"),
        ({"expires_at": DATETIME(2040, 1, 1, tzinfo=UTC)}, "expires_at"),
        ({"delay": TIMEDELTA(seconds=5)}, "delay"),
        ({"every": TIMEDELTA(seconds=5)}, "every"),
        ({"timeout": CLASSLESS()}, "timeout"),
        ({"priority": CLASSLESS()}, "priority"),
        ({"at_most_once": CLASSLESS()}, "at_most_once"),
    ],
)
def test_a_class_that_raises_is_an_error_naming_the_field_and_nothing_is_added(
    scheduler: Scheduler, fields: dict[str, Any], named: str
) -> None:
    before = scheduler.counts()
    with pytest.raises(TickwheelError) as raised:
        scheduler.add("note", **fields)
    assert raised.value.field == named
    assert str(raised.value)
    assert scheduler.counts() == before


def test_text_of_a_class_that_raises_becomes_plain_text(scheduler: Scheduler) -> None:
    task = scheduler.add(
        STR("note"), {"what": STR("x")}, id=STR("hostile"), delay=STR("1h"), tags=[STR("t")], on_conflict=STR("keep")
    )
    there = scheduler.get("hostile")
    assert (there.handler, there.args, there.tags) == ("note", {"what": "x"}, ["t"])
    assert {type(each) for each in (task.id, task.handler, task.tags[0], task.args["what"])} == {str}


def test_a_task_whose_class_raises_keeps_its_batch_from_being_added(scheduler: Scheduler) -> None:
    with pytest.raises(InvalidTask):
        scheduler.add_many([{"handler": "note"}, DICT(handler="note")])
    assert sum(scheduler.counts().values()) == 0


@pytest.mark.parametrize("kind", [AsyncScheduler, Scheduler])
@pytest.mark.parametrize("store", [Path("tasks.db"), None, 5, b"sqlite:///tasks.db", AsyncScheduler])
def test_what_is_no_store_is_refused_at_once(kind: Any, store: object) -> None:
    with pytest.raises(InvalidOption, match="store must be a URL, such as"):
        kind(store)


@pytest.mark.parametrize("clock", [5, 0, "now", SimpleNamespace(time_ns=lambda: 0)])
def test_what_is_no_clock_is_refused_at_once(clock: Any) -> None:
    with pytest.raises(InvalidClock, match="invalid clock"):
        AsyncScheduler("memory://", clock=clock)
