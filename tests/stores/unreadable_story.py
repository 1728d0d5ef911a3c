"""What every store on a server has to make of a task that this version cannot read."""

from collections.abc import Awaitable, Callable

import pytest
from msgspec.structs import replace

from tickwheel.errors import DuplicateTask, TaskUnreadable
from tickwheel.stores import Store
from tickwheel.stores.contract import Filter
from tickwheel.tasks import Status, UnreadableTask
from tickwheel.testing.stores.scenario import ids, own, task

__all__ = ["ODD_BODIES", "tell_of_an_unreadable_task"]

# Written over the data of the task "bad": by a newer version, or by accident.
ODD_BODIES = {
    "no task": b"{}",
    "no JSON": b"?",
    "a time before 1970": b'{"id":"bad","handler":"orders.cancel","run_at":-1,"occurrence_at":-1,"created_at":0}',
    "the last version": (
        b'{"id":"bad","handler":"orders.cancel","run_at":1000,"occurrence_at":1000,"created_at":0,'
        b'"version":9223372036854775807}'
    ),
    "too many arguments": (
        b'{"id":"bad","handler":"orders.cancel","args":{"n":"%s"},"run_at":1000,"occurrence_at":1000,"created_at":0}'
        % (b"x" * 300_000)
    ),
    "another task's data": b'{"id":"x","handler":"orders.cancel","run_at":1000,"occurrence_at":1000,"created_at":0}',
    "another handler": b'{"id":"bad","handler":"other","run_at":1000,"occurrence_at":1000,"created_at":0}',
}


async def tell_of_an_unreadable_task(store: Store, damage: Callable[[], Awaitable[object]]) -> None:
    """Add tasks, damage one, and see that it is set aside by itself; the store has one partition."""
    await store.add([task("a"), task("bad"), task("c")])
    await damage()
    there, bad = await store.get(["a", "bad"])
    assert there == task("a")
    assert isinstance(bad, UnreadableTask)
    assert (bad.status, bad.reason_code) == (Status.PENDING, "unreadable")
    assert ids((await store.query(Filter())).tasks) == ["c", "bad", "a"]
    for call in (store.reschedule("bad", 5), store.amend([task("bad")])):
        with pytest.raises(TaskUnreadable):
            await call
    with pytest.raises(DuplicateTask):
        await store.add([task("bad")], "replace")
    assert await store.cancel(["bad"], "no") == await store.pause(["bad"]) == [bad]
    leases = await own(store)
    now = await store.time()
    for _ in range(2):
        claimed = await store.claim(leases, ["a", "bad", "c"], now)
        assert ids(claimed) in (["a", "c"], [])
    [still] = await store.get(["bad"])
    assert still is not None
    assert still.status is Status.PENDING, "a node that can read it takes it"
    counted = await store.counts()
    assert (counted[Status.PENDING], counted[Status.RUNNING]) == (1, 2)
    await store.release(leases)
    again = await own(store)
    assert ids(await store.orphans(again, 10)) == ["a", "c"]
    [gone] = await store.remove(["bad"])
    assert gone is not None
    assert await store.get(["bad"]) == [None]
    assert (await store.counts())[Status.PENDING] == 0
    assert ids((await store.query(Filter())).tasks) == ["c", "a"]
    await store.add([replace(task("bad"), run_at=2000)])
