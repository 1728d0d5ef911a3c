"""The blocking scheduler among threads, and on its own loop."""

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta, tzinfo
from itertools import count
from typing import Any

import pytest

from tickwheel.errors import BatchTooLarge, BlockingCall, SchedulerNotStarted
from tickwheel.observe import Event
from tickwheel.scheduler import Scheduler
from tickwheel.tasks import Status

METHODS: dict[str, Callable[[Scheduler], Any]] = {
    "start": Scheduler.start,
    "stop": Scheduler.stop,
    "add": lambda scheduler: scheduler.add("other"),
    "add_many": lambda scheduler: scheduler.add_many([{"handler": "other"}]),
    "get": lambda scheduler: scheduler.get("a"),
    "counts": Scheduler.counts,
    "picture": Scheduler.picture,
    "run": lambda scheduler: scheduler.run(asyncio.sleep(0)),
}


def scheduler_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "tickwheel-scheduler"]


@pytest.mark.parametrize("method", METHODS)
def test_a_method_called_on_its_own_loop_raises_at_once(method: str) -> None:
    scheduler = Scheduler("memory://")
    raised: list[Exception] = []
    done = threading.Event()

    @scheduler.task("call")
    async def call() -> None:
        try:
            METHODS[method](scheduler)
        except RuntimeError as error:
            raised.append(error)
        done.set()

    with scheduler:
        scheduler.add("call")
        assert done.wait(60), "it hangs"
        [error] = raised
        assert isinstance(error, BlockingCall)
        assert "was called on the scheduler's own event loop" in str(error)
        assert "await scheduler.inner." in str(error)
        assert scheduler.counts()[Status.PENDING] == 0, "the scheduler works as before"


def test_a_method_called_by_an_event_listener_raises_at_once() -> None:
    scheduler = Scheduler("memory://")
    scheduler.task("note")(lambda: None)
    raised: list[type] = []

    def listen(_: Event) -> None:
        try:
            scheduler.counts()
        except BlockingCall as error:
            raised.append(type(error))

    scheduler.events.listen(listen)
    with scheduler:
        scheduler.add("note", delay="1h")
    assert raised == [BlockingCall]


def test_add_many_reads_what_it_is_given_on_the_thread_of_its_caller() -> None:
    scheduler = Scheduler("memory://")
    ran = threading.Event()
    scheduler.task("other")(ran.set)

    def tasks() -> Iterator[dict[str, Any]]:
        scheduler.add("other")
        assert ran.wait(60), "tasks run meanwhile"
        yield {"handler": "other", "id": threading.current_thread().name, "delay": "1h"}

    with scheduler:
        [task] = scheduler.add_many(tasks())
        assert task.id == threading.current_thread().name


def test_add_many_takes_no_more_of_an_endless_iterable_than_it_needs() -> None:
    scheduler = Scheduler("memory://")
    numbers = count()
    with scheduler, pytest.raises(BatchTooLarge):
        scheduler.add_many({"handler": "other", "id": f"{number}"} for number in numbers)
    assert next(numbers) == 10_001


def test_a_plain_function_can_use_its_scheduler_also_while_it_stops() -> None:
    scheduler = Scheduler("memory://", grace_s=10)
    begun, stopping = threading.Event(), threading.Event()
    counted: list[int] = []

    @scheduler.task("chain")
    def chain() -> None:
        begun.set()
        assert stopping.wait(60)
        scheduler.add("chain", id="next", delay="1h")
        counted.append(scheduler.counts()[Status.PENDING])

    scheduler.start()
    scheduler.add("chain")
    assert begun.wait(60)
    stop = threading.Thread(target=scheduler.stop)
    stop.start()
    stopping.set()
    stop.join(10)
    assert counted == [1]


class Nosy(Mapping[str, Any]):
    """Arguments whose methods ask the scheduler, and note on which thread they are called."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.threads: set[threading.Thread] = set()

    def _look(self) -> dict[str, Any]:
        self.threads.add(threading.current_thread())
        return {"pending": self.scheduler.counts()[Status.PENDING]}

    def __getitem__(self, key: str) -> Any:
        return self._look()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._look())

    def __len__(self) -> int:
        return len(self._look())


class NosyZone(tzinfo):
    def __init__(self, scheduler: Scheduler) -> None:
        self.nosy = Nosy(scheduler)

    def utcoffset(self, _: datetime | None) -> timedelta:
        self.nosy._look()
        return timedelta(0)

    def dst(self, _: datetime | None) -> None:
        return None

    def tzname(self, _: datetime | None) -> str:
        return "nosy"


@pytest.mark.parametrize("many", [False, True])
def test_objects_of_the_caller_are_read_on_its_thread(many: bool) -> None:
    with Scheduler("memory://", run=False) as scheduler:
        args, zone = Nosy(scheduler), NosyZone(scheduler)
        wanted: dict[str, Any] = {"handler": "h", "args": args, "at": datetime(2030, 1, 1, tzinfo=zone)}
        task = scheduler.add_many([wanted])[0] if many else scheduler.add(**wanted)
        assert task.args == {"pending": 0}
        assert args.threads == zone.nosy.threads == {threading.current_thread()}


def test_eight_threads_start_and_stop_it_at_once() -> None:
    scheduler = Scheduler("memory://")
    together = threading.Barrier(8)
    failed: list[BaseException] = []

    def live(number: int) -> None:
        try:
            together.wait()
            for _ in range(5):
                scheduler.start() if number % 2 else scheduler.stop()
        except BaseException as error:  # noqa: BLE001 - it is shown
            failed.append(error)

    threads = [threading.Thread(target=live, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert failed == []
    scheduler.start()
    assert scheduler_threads() == ["tickwheel-scheduler"]
    assert len(scheduler.leases()) == 64
    scheduler.stop()
    scheduler.stop()
    assert scheduler_threads() == []


def test_calls_of_other_threads_end_when_it_is_stopped() -> None:
    scheduler = Scheduler("memory://").start()
    ended: list[type[BaseException] | None] = []
    ready = threading.Barrier(9)

    def call() -> None:
        ready.wait()
        try:
            while True:
                scheduler.add(queue="emails")
                scheduler.lease("emails", wait="10s")
        except SchedulerNotStarted as error:
            ended.append(type(error))

    def hang() -> None:
        ready.wait()
        try:
            scheduler.run(asyncio.sleep(3600))
        except SchedulerNotStarted as error:
            ended.append(type(error))

    threads = [threading.Thread(target=target) for target in (call, hang) for _ in range(4)]
    for thread in threads:
        thread.start()
    ready.wait()
    scheduler.stop(0)
    for thread in threads:
        thread.join(10)
    assert ended == [SchedulerNotStarted] * 8


def test_it_says_when_it_is_not_started() -> None:
    scheduler = Scheduler("memory://")
    with pytest.raises(SchedulerNotStarted, match="is not started"):
        scheduler.add(queue="emails")
    with scheduler:
        scheduler.add(queue="emails")
    with pytest.raises(SchedulerNotStarted, match="was stopped"):
        scheduler.add(queue="emails")
    assert scheduler_threads() == [], "it was not started by that"
    assert scheduler.picture() is None


def test_run_forever_on_another_thread_ends_when_it_is_stopped() -> None:
    scheduler = Scheduler("memory://")
    running = threading.Thread(target=scheduler.run_forever)
    running.start()
    while scheduler.picture() is None:  # until it is started
        pass
    scheduler.stop()
    running.join(10)
    assert not running.is_alive()


async def exit_program() -> None:
    raise SystemExit(4)


async def interrupt_program() -> None:
    raise KeyboardInterrupt


async def stop_loop() -> None:
    asyncio.get_running_loop().stop()


@pytest.mark.parametrize("harm", [exit_program, interrupt_program, stop_loop])
def test_no_handler_ends_the_loop(harm: Callable[[], Any], caplog: pytest.LogCaptureFixture) -> None:
    scheduler = Scheduler("memory://")
    ran = threading.Event()

    @scheduler.task("harm")
    async def harmful() -> None:
        await asyncio.create_task(harm())

    scheduler.task("other")(ran.set)

    def use() -> None:
        with scheduler:
            scheduler.add("harm")
            scheduler.add("other", delay=0.1)
            assert ran.wait(60)
            scheduler.counts()

    user = threading.Thread(target=use, daemon=True)
    user.start()
    user.join(20)
    assert ran.is_set()
    assert not user.is_alive(), "a call hangs"
    assert "tasks go on; raise Fail to end a run" in caplog.text


def test_calls_and_run_forever_raise_when_the_loop_cannot_go_on(caplog: pytest.LogCaptureFixture) -> None:
    scheduler = Scheduler("memory://")
    raised: list[SchedulerNotStarted] = []

    async def break_loop() -> None:
        loop: Any = asyncio.get_running_loop()
        loop._selector.close()  # as a handler does that closes all files
        await asyncio.sleep(3600)

    def call(method: Callable[[], Any]) -> None:
        with pytest.raises(SchedulerNotStarted, match="restart this program") as caught:
            method()
        raised.append(caught.value)

    forever = threading.Thread(target=call, args=(scheduler.run_forever,), daemon=True)
    scheduler.start()
    forever.start()
    calls = [lambda: scheduler.run(break_loop()), scheduler.counts, scheduler.stop]
    for method in calls:
        caller = threading.Thread(target=call, args=(method,), daemon=True)
        caller.start()
        caller.join(20)
    forever.join(20)
    assert len(raised) == 4, "a call hangs"
    assert all(error.broken for error in raised)
    assert "cannot go on: restart this program" in caplog.text
