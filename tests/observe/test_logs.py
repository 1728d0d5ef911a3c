"""What is logged, as it is read: by machines and by people."""

import asyncio
import io
import json
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.scheduler.worlds import World
from tickwheel.errors import UnknownOption
from tickwheel.observe.event_log import EventLog, run_fields
from tickwheel.observe.logs import LogStyle, configure_logs
from tickwheel.observe.masking import Mask
from tickwheel.scheduler import AsyncScheduler
from tickwheel.tasks import RetryPolicy

log = logging.getLogger("shop")

Configure = Callable[..., io.StringIO]


@pytest.fixture
def configure() -> Iterator[Configure]:
    """Configure logs into a text, for one test."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level

    def apply(style: LogStyle = "json", **options: Any) -> io.StringIO:
        stream = io.StringIO()
        configure_logs(style, stream=stream, **options)
        return stream

    yield apply
    root.handlers[:] = handlers
    root.setLevel(level)


def lines_of(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_record_is_a_line_of_json_with_its_fields(configure: Configure) -> None:
    stream = configure()
    log.info("paid %s", "in full", extra={"order_id": 7, "task_id": "order-7", "handler": "orders.cancel"})
    (line,) = lines_of(stream)
    assert line.pop("timestamp").endswith("Z")
    assert line == {
        "event": "paid in full",
        "level": "info",
        "logger": "shop",
        "order_id": 7,
        "task_id": "order-7",
        "handler": "orders.cancel",
    }


def test_secrets_are_masked_wherever_they_are(configure: Configure) -> None:
    stream = configure()
    log.info("sent", extra={"token": "t-1", "arguments": {"user": "ada", "headers": [{"Authorization": "Basic x"}]}})
    (line,) = lines_of(stream)
    assert line["token"] == "***"
    assert line["arguments"] == {"user": "ada", "headers": [{"Authorization": "***"}]}
    stream = configure(mask=Mask(("user",)))
    log.info("sent", extra={"token": "t-1", "arguments": {"user": "ada"}})
    assert (lines_of(stream)[0]["token"], lines_of(stream)[0]["arguments"]) == ("t-1", {"user": "***"})


def test_an_exception_is_one_field(configure: Configure) -> None:
    stream = configure()
    try:
        int("too much")
    except ValueError:
        log.exception("not paid")
    (line,) = lines_of(stream)
    assert line["exception"].endswith("'too much'")


def test_to_configure_again_is_to_configure_anew(configure: Configure) -> None:
    first = configure()
    second = configure("console", level="ERROR")
    log.warning("not seen")
    log.error("seen", extra={"order_id": 7, "password": "p"})
    assert first.getvalue() == ""
    assert "not seen" not in second.getvalue()
    assert "seen" in second.getvalue()
    assert "order_id=7" in second.getvalue()
    assert "password=***" in second.getvalue()


def test_a_style_that_there_is_not_is_refused(configure: Configure) -> None:
    with pytest.raises(UnknownOption, match="did you mean 'style=json'"):
        configure("jsonl")


def test_a_story_is_told_with_its_fields_and_quietly(configure: Configure) -> None:
    stream = configure()
    world = World()

    async def story(scheduler: AsyncScheduler) -> None:
        EventLog(scheduler)
        await scheduler.add("note", {"what": "fine"}, id="fine")
        policy = RetryPolicy(retries=1, first_ms=5_000, jitter=0.0)
        await scheduler.add("fail", {"what": "x"}, id="x", retry=policy)
        await scheduler.add("note", {"what": "never"}, delay="1h", id="never")
        await scheduler.cancel("never", "not needed")
        await asyncio.sleep(60)

    world.play(story)
    lines = {(line["task_id"], line["level"]): line for line in lines_of(stream)}
    assert set(lines) == {("never", "info"), ("x", "warning"), ("x", "error")}, "what goes well is not said"
    assert lines["never", "info"]["event"] == "task 'never' of 'note' cancelled: not needed"
    retried = lines["x", "warning"]
    assert retried["event"] == "task 'x' of 'fail' retried: attempt 1 of 2 failed; the next one is in 5 s"
    assert (retried["handler"], retried["attempt"]) == ("fail", 1)
    assert 4_900 <= retried["delay_ms"] <= 5_000, "outcomes are gathered for some milliseconds"
    assert (retried["logger"], retried["took_ms"]) == ("tickwheel.tasks", 0)
    assert retried["exception"].rstrip().endswith("ValueError: x")
    assert lines["x", "error"]["attempt"] == 2


def test_everything_is_told_to_who_asks_for_it(configure: Configure) -> None:
    stream = configure(level="DEBUG")
    world = World()

    async def story(scheduler: AsyncScheduler) -> None:
        events = EventLog(scheduler)
        await scheduler.add("note", {"what": "a"}, delay=10, id="a")
        await asyncio.sleep(20)
        events.close()
        await scheduler.add("note", {"what": "b"}, id="b")
        await asyncio.sleep(20)

    due_at = world.now() + 10_000
    world.play(story)
    lines = [line for line in lines_of(stream) if line["logger"] == "tickwheel.tasks"]
    assert [line["event"] for line in lines] == [
        f"task 'a' of 'note' {kind}" for kind in ("added", "started", "completed")
    ]
    assert (lines[0]["due_at"], lines[0]["delay_ms"]) == (due_at, 10_000)
    assert lines[1]["late_ms"] == 0


def test_what_a_handler_logs_says_which_run_it_was(configure: Configure) -> None:
    stream = configure()
    world = World()

    async def story(scheduler: AsyncScheduler) -> None:
        EventLog(scheduler)

        @scheduler.task("talk")
        async def talk() -> None:
            await asyncio.sleep(1)
            log.info("on the loop")

        @scheduler.task("talk-on-a-thread", timeout="1000d")  # virtual time flies while a thread works
        def talk_there() -> None:
            log.info("on a thread", extra={"attempt": "what a record says itself comes first"})

        await scheduler.add("talk", id="a")
        await scheduler.add("talk-on-a-thread", id="b")
        while stream.getvalue().count("\n") < 2:  # noqa: ASYNC110 - a thread is not on the loop's time
            await asyncio.sleep(1)
        log.info("outside")
        assert run_fields() == {}

    world.play(story)
    lines = {line["event"]: line for line in lines_of(stream)}
    assert (lines["on the loop"]["task_id"], lines["on the loop"]["handler"]) == ("a", "talk")
    assert lines["on the loop"]["attempt"] == 1
    assert (lines["on a thread"]["task_id"], lines["on a thread"]["handler"]) == ("b", "talk-on-a-thread")
    assert lines["on a thread"]["attempt"] == "what a record says itself comes first"
    assert "task_id" not in lines["outside"]
