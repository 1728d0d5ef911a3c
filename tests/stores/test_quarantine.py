"""Rows that cannot be read are set aside one by one: everything else runs, and they can be seen and deleted."""

import asyncio
import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest

from tests.stores.children import opened
from tickwheel.errors import DuplicateTask, TaskRunning, TaskUnreadable, TickwheelError, UnknownTask
from tickwheel.scheduler import Scheduler
from tickwheel.stores import MemoryStore, Store
from tickwheel.stores.contract import Filter, Finish
from tickwheel.stores.quarantine import Columns, unreadable
from tickwheel.tasks import RetryPolicy, RunStatus, Status, Task, TaskContext, UnreadableTask
from tickwheel.testing.stores.scenario import own, task

Change = Callable[[dict[str, Any]], dict[str, Any]]

NOT_JSON = b'{"id": "bad", '
DAMAGES: dict[str, Change | bytes] = {
    "bad JSON": NOT_JSON,
    "no UTF-8": b'{"id": "\xff\xfe"}',
    "nothing": b"",
    "another task's data": lambda body: {**body, "id": "other"},
    "a list": b"[]",
    "wrong type": lambda body: {**body, "priority": "high"},
    "wrong policy": lambda body: {**body, "retry": 3},
    "policy out of range": lambda body: {**body, "retry": {"retries": -1}},
    "unknown status": lambda body: {**body, "status": "sleeping"},
    "unknown trigger": lambda body: {**body, "trigger": {"type": "lunar", "phase": "full"}},
    "a version beyond 64 bits": lambda body: {**body, "version": 10**30},
    "the last version": lambda body: {**body, "version": 2**63 - 1},
    "the last attempt": lambda body: {**body, "attempt": 2**63 - 1},
    "arguments beyond the limit": lambda body: {**body, "args": {"what": "x" * 5_000_000}},
    "arguments beyond the depth": lambda body: {**body, "args": {"what": nested(200)}},
    "a time before 1970": lambda body: {**body, "run_at": -1, "occurrence_at": -1},
    "a time beyond all": lambda body: {**body, "occurrence_at": 2**63 - 1},
    "a series beyond all times": lambda body: {
        **body,
        "trigger": {"type": "every", "interval_ms": 1000},
        "times": -1,
        "occurrence_at": 2**53 - 1,
    },
    "a timeout of nothing": lambda body: {**body, "timeout_ms": 0},
    "failures below none": lambda body: {**body, "failures": -1},
    "no handler": lambda body: {**body, "handler": ""},
    "another partition": lambda body: {**body, "partition": body["partition"] ^ 1},
    "another handler": lambda body: {**body, "handler": "other"},
    "another status": lambda body: {**body, "status": "running"},
    "another time": lambda body: {**body, "run_at": body["run_at"] - 1},
    "too much that follows": lambda body: {
        **body,
        "following": ["debounce", {**body, "args": {"what": "x" * 262_140}}],
    },
    "missing field": lambda body: {name: value for name, value in body.items() if name != "run_at"},
}


def damage(path: Path, task_id: str, change: Change | bytes) -> bytes:
    """Write over the data of a task, as a bug, a newer version or a hand at the file would."""
    file = apsw.Connection(str(path))
    file.set_busy_timeout(5000)
    body: bytes = file.execute("SELECT body FROM tasks WHERE id = ?", (task_id,)).get
    body = change if isinstance(change, bytes) else msgspec.json.encode(change(msgspec.json.decode(body)))
    file.execute("UPDATE tasks SET body = ? WHERE id = ?", (body, task_id))
    assert file.changes() == 1
    file.close()
    return body


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def execute(path: Path, statement: str) -> None:
    """Write to the file as another program would, whatever comes of it."""
    file = apsw.Connection(str(path))
    file.set_busy_timeout(5000)
    file.execute(statement)
    assert file.changes() == 1
    file.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tasks.db"


@pytest.mark.parametrize("kind", DAMAGES)
def test_an_unreadable_task_keeps_no_other_from_running_before_and_after_a_restart(
    path: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    url = f"sqlite:///{path}"
    with Scheduler(url, run=False) as adder:
        for name in ("first", "bad", "second"):
            adder.add("note", {"what": name}, id=name)
    raw = damage(path, "bad", DAMAGES[kind])
    for again in range(2):
        ran: list[str] = []
        enough = threading.Event()
        scheduler = Scheduler(url, rescan_ms=100)

        @scheduler.task("note")
        async def note(what: str, ran: list[str] = ran, enough: threading.Event = enough) -> None:
            ran.append(what)
            if what in ("second", "third"):
                enough.set()

        with scheduler:
            if again:
                scheduler.add("note", {"what": "third"}, id="third")
            assert enough.wait(20)
            shown = scheduler.get("bad")
        assert ran == (["third"] if again else ["first", "second"])
        assert isinstance(shown, UnreadableTask)
        assert (shown.status, shown.handler, shown.reason_code) == (Status.PENDING, "note", "unreadable")
        assert shown.reason == f"unreadable: {shown.why}"
        assert shown.raw == raw.decode(errors="backslashreplace")
    told = [record for record in caplog.records if "cannot be read by this version" in record.message]
    assert len(told) == 2, "once for each of the two that were started, however often they looked"


ODD_COLUMNS = {
    "no UTF-8 in its handler": "handler = CAST(x'ff' AS TEXT)",
    "no UTF-8 in its id": "id = CAST(x'62ff' AS TEXT)",
    "a status that there is not": "status = 6",
    "a status that there is not, beside an unreadable body": "status = 99, body = x'00'",
    "a status below the first": "status = -1",
    "another partition": "part = 63 - part",
    "no partition": "part = 999",
    "a time before all": "run_at = -1000",
    "the first of all times": "run_at = -9223372036854775808",
    "a time when it was over, though it waits": "finished_at = 5",
    "another version": "version = 7",
    "the highest priority": "priority = 9223372036854775807",
}


@pytest.mark.parametrize("kind", ODD_COLUMNS)
@pytest.mark.parametrize("damaged", ["before", "while it runs"])
def test_a_row_with_an_odd_column_keeps_no_other_from_running(path: Path, kind: str, damaged: str) -> None:
    url = f"sqlite:///{path}"
    statement = f"UPDATE tasks SET {ODD_COLUMNS[kind]} WHERE id = 'bad'"
    with Scheduler(url, run=False) as adder:
        adder.add("note", {"what": "bad"}, id="bad", delay="1h" if damaged == "while it runs" else 0)
    if damaged == "before":
        execute(path, statement)
    ran: list[str] = []
    enough = threading.Event()
    scheduler = Scheduler(url, rescan_ms=100)

    @scheduler.task("note")
    async def note(what: str) -> None:
        ran.append(what)
        if what == "second":
            enough.set()

    with scheduler:
        scheduler.add("note", {"what": "first"}, id="first")
        if damaged == "while it runs":
            execute(path, statement)
        scheduler.add("note", {"what": "second"}, id="second", delay="10ms")
        assert enough.wait(20)
        [bad] = [task for task in scheduler.list().tasks if isinstance(task, UnreadableTask)]
        assert bad.id == ("b\\xff" if "its id" in kind else "bad")
        assert scheduler.get(bad.id) == bad
        assert 0 <= bad.run_at <= 2**53
        with pytest.raises(TaskUnreadable):
            scheduler.run_now(bad.id)
        assert scheduler.delete(bad.id).id == bad.id
        assert not [task for task in scheduler.list().tasks if isinstance(task, UnreadableTask)]
    assert ran == ["first", "second"]


def test_an_id_that_is_spelled_like_bytes_is_an_id(path: Path) -> None:
    with Scheduler(f"sqlite:///{path}", run=False) as scheduler:
        scheduler.add("note", id="A", delay="1h")
        with pytest.raises(UnknownTask):
            scheduler.get(r"\x41")
        scheduler.add("note", id=r"\x41", delay="1h")
        assert scheduler.get(r"\x41").id == r"\x41"


def test_what_is_over_and_has_no_readable_id_is_purged(path: Path) -> None:
    with Scheduler(f"sqlite:///{path}", run=False) as scheduler:
        scheduler.add("note", id="bad", delay="1h")
        scheduler.cancel("bad")
        execute(path, "UPDATE tasks SET id = CAST(x'ff' AS TEXT)")
        assert scheduler.purge(0) == 1
        assert not scheduler.list().tasks


@pytest.mark.parametrize("handlers", ["CAST(x'ff' AS TEXT)", "'{}'"])
def test_a_node_whose_handlers_cannot_be_read_keeps_no_other_from_running(path: Path, handlers: str) -> None:
    with Scheduler(f"sqlite:///{path}", run=False) as adder:
        adder.add("elsewhere", id="routed")
        execute(path, f"INSERT INTO nodes (node, expires_at, handlers) VALUES ('odd', 1, {handlers})")
    ran = threading.Event()
    scheduler = Scheduler(f"sqlite:///{path}", rescan_ms=100)
    scheduler.task("note")(ran.set)
    with scheduler:
        scheduler.add("note", id="a")
        assert ran.wait(20)


def test_a_field_of_a_newer_version_keeps_nothing_from_running(path: Path) -> None:
    ran = threading.Event()
    with Scheduler(f"sqlite:///{path}", run=False) as adder:
        adder.add("note", id="newer")
    damage(path, "newer", lambda body: {**body, "colour": "red"})
    scheduler = Scheduler(f"sqlite:///{path}")
    scheduler.task("note")(ran.set)
    with scheduler:
        assert ran.wait(20)


def test_what_can_be_read_again_runs(path: Path) -> None:
    ran = threading.Event()
    with Scheduler(f"sqlite:///{path}", run=False) as adder:
        adder.add("note", id="a")
        good = damage(path, "a", lambda body: body)
    damage(path, "a", NOT_JSON)
    scheduler = Scheduler(f"sqlite:///{path}", rescan_ms=100)
    scheduler.task("note")(ran.set)
    with scheduler:
        assert isinstance(scheduler.get("a"), UnreadableTask)
        damage(path, "a", good)
        assert ran.wait(20)


def test_an_unreadable_task_is_listed_counted_and_deleted(path: Path) -> None:
    with Scheduler(f"sqlite:///{path}", run=False) as scheduler:
        for name in ("a", "bad", "c"):
            scheduler.add("note", id=name, delay="1h", tags=["x"])
        damage(path, "bad", NOT_JSON)
        assert [each.id for each in scheduler.list().tasks] == ["c", "bad", "a"]
        assert [each.id for each in scheduler.list(order="due").tasks] == ["a", "bad", "c"]
        assert [each.id for each in scheduler.list(handler="note", status=Status.PENDING).tasks] == ["c", "bad", "a"]
        assert [each.id for each in scheduler.list(id_prefix="b").tasks] == ["bad"]
        assert [each.id for each in scheduler.list(tag="x").tasks] == ["c", "a"], "its tags are not known"
        assert scheduler.count(Filter(handler="note")).tasks == 3
        assert scheduler.count(Filter(tag="x")).tasks == 2
        assert scheduler.delete("bad").id == "bad"
        assert scheduler.counts()[Status.PENDING] == 2
        scheduler.add("note", id="bad", delay="1h")


def test_verbs_say_that_a_task_is_unreadable_and_leave_it_as_it_is(path: Path) -> None:
    with Scheduler(f"sqlite:///{path}", run=False) as scheduler:
        scheduler.add("note", id="bad", delay="1h")
        scheduler.add("note", id="good", delay="1h")
        damage(path, "bad", NOT_JSON)
        before = scheduler.get("bad")
        verbs: list[Callable[[], Any]] = [
            lambda: scheduler.cancel("bad"),
            lambda: scheduler.pause("bad"),
            lambda: scheduler.resume("bad"),
            lambda: scheduler.retry("bad"),
            lambda: scheduler.run_now("bad"),
            lambda: scheduler.reschedule("bad", delay=1),
            lambda: scheduler.amend("bad", priority=1),
        ]
        for verb in verbs:
            with pytest.raises(TaskUnreadable, match="upgrade this process if a newer version wrote it, or delete it"):
                verb()
        for way in ("reject", "keep", "replace", "debounce"):
            with pytest.raises(DuplicateTask, match="which this version cannot read"):
                scheduler.add("note", id="bad", on_conflict=way)
        assert scheduler.get("bad") == before
        *_, (seen, changed) = scheduler.sweep("cancel", Filter(handler="note"))
        assert (seen, changed) == (2, 1)
        assert scheduler.get("good").status is Status.CANCELLED
        assert scheduler.get("bad") == before


def test_what_is_over_and_unreadable_is_purged(path: Path) -> None:
    with Scheduler(f"sqlite:///{path}", run=False) as scheduler:
        scheduler.add("note", id="bad", delay="1h")
        scheduler.cancel("bad")
        damage(path, "bad", NOT_JSON)
        assert scheduler.get("bad").status is Status.CANCELLED

    async def purge() -> None:
        store = await opened(str(path))
        assert await store.purge(2**50) == 1
        assert (await store.counts())[Status.CANCELLED] == 0
        await store.close()

    asyncio.run(purge())


def test_what_waits_is_not_purged_whatever_its_row_says(path: Path) -> None:
    with Scheduler(f"sqlite:///{path}", run=False) as scheduler:
        scheduler.add("note", id="bad", delay="1h")
        execute(path, "UPDATE tasks SET finished_at = 5")

    async def purge() -> None:
        store = await opened(str(path))
        assert await store.purge(2**50) == 0
        assert [task.id for task in (await store.query(Filter())).tasks] == ["bad"]
        await store.close()

    asyncio.run(purge())


def test_a_run_that_cannot_be_read_is_left_out_of_the_history(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    ran = list[str]()

    def note(context: TaskContext) -> None:
        ran.append(context.id)
        if len(ran) < 3:
            raise ValueError

    def run(verb: str) -> None:
        done = threading.Event()
        scheduler = Scheduler(f"sqlite:///{path}")
        scheduler.task("note", retry=RetryPolicy(retries=1, first_ms=1))(note)
        scheduler.events.listen(lambda event: done.set() if event.kind in ("completed", "failed") else None)
        with scheduler:
            scheduler.add("note", id="a") if verb == "add" else scheduler.retry("a")
            assert done.wait(60)

    run("add")
    file = apsw.Connection(str(path))
    assert file.execute("UPDATE runs SET body = ? RETURNING attempt", (b"[]",)).fetchall() == [(1,)]
    file.execute("UPDATE tasks SET last_run = ?", (b"[]",))
    file.close()
    run("retry")
    with Scheduler(f"sqlite:///{path}", run=False) as again:
        assert [(run.attempt, run.status) for run in again.history("a")] == [(3, RunStatus.COMPLETED)]
    assert "a run of task 'a' cannot be read" in caplog.text
    assert ran == ["a"] * 3


# -- while it runs, and after its owner died


async def claimed(store: Store, *tasks: Task) -> tuple[Any, list[Task]]:
    await store.add(tasks)
    leases = await own(store)
    return leases, await store.claim(leases, [each.id for each in tasks], 1000)


def test_a_row_damaged_while_it_runs_is_mended_by_its_outcome(path: Path) -> None:
    async def main() -> None:
        store = await opened(str(path))
        leases, [bad, other] = await claimed(store, task("bad"), task("other"))
        damage(path, "bad", NOT_JSON)
        assert (await store.remove(["bad"]))[0] is not None
        [there] = await store.get(["bad"])
        assert there is not None, "it runs, and stays"
        await store.cancel(["other"], "so that the two are not written as one")
        lease = {each.partition: each for each in leases}
        ended = [
            Finish(lease=lease[each.partition], task=msgspec.structs.replace(each, status=Status.COMPLETED, result=7))
            for each in (bad, other)
        ]
        assert await store.finish(ended) == [True, True]
        [after] = await store.get(["bad"])
        assert after is not None
        assert (after.status, after.result) == (Status.COMPLETED, 7)
        await store.close()

    asyncio.run(main())


def test_orphans_are_found_beyond_those_that_cannot_be_read(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        store = await opened(str(path))
        leases, _ = await claimed(store, task("bad1"), task("bad2"), task("good"))
        damage(path, "bad1", NOT_JSON)
        damage(path, "bad2", NOT_JSON)
        await store.release(leases)
        again = await own(store)
        for _ in range(3):
            assert [each.id for each in await store.orphans(again, 1)] == ["good"]
        assert [record.levelno for record in caplog.records] == [logging.WARNING] * 2
        removed = await store.remove(["bad1"])
        assert [each is not None and each.status for each in removed] == [Status.PENDING], "nobody runs it any more"
        assert await store.get(["bad1"]) == [None]
        counts = await store.counts()
        assert (counts[Status.RUNNING], counts[Status.PENDING]) == (2, 0)
        await store.close()

    asyncio.run(main())


def test_a_running_task_is_not_deleted_because_this_version_cannot_read_it(path: Path) -> None:
    def delete() -> None:
        damage(path, "bad", NOT_JSON)
        with Scheduler(f"sqlite:///{path}", run=False) as scheduler, pytest.raises(TaskRunning):
            scheduler.delete("bad")

    async def main() -> None:
        store = await opened(str(path))
        await store.add([task("bad")])
        await store.claim(await own(store), ["bad"], 1000)
        await asyncio.to_thread(delete)
        await store.close()

    asyncio.run(main())


def test_memory_treats_an_unreadable_task_alike() -> None:
    async def main() -> None:
        store = MemoryStore(now_ms=lambda: 1000, partitions=8)
        leases, _ = await claimed(store, task("good"), task("running"))
        bad = unreadable(NOT_JSON, ValueError("cut off"), Columns("bad", 0, 0, 1000, handler="note"))
        store._number("bad")
        store._change([bad])
        assert await store.claim(leases, ["bad"], 1000) == []
        assert await store.get(["bad"]) == [bad]
        assert bad in (await store.query(Filter())).tasks
        assert await store.cancel(["bad"], "no") == await store.pause(["bad"]) == [bad]
        for call in (store.reschedule("bad", 5), store.amend([task("bad")])):
            with pytest.raises(TaskUnreadable):
                await call
        with pytest.raises(DuplicateTask):
            await store.add([task("bad")], "replace")
        assert await store.remove(["bad"]) == [bad]
        assert await store.get(["bad"]) == [None]

    asyncio.run(main())


def test_the_error_says_which_task_and_what_to_do() -> None:
    error = TaskUnreadable("a", "Expected `int`, got `str`")
    assert isinstance(error, TickwheelError)
    assert "task 'a' cannot be read by this version of tickwheel (Expected `int`, got `str`)" in str(error)
