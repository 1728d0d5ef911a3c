"""Looking for tasks by tag, text and time, in three orders, and counting them."""

from typing import Any

from tickwheel.clock import VirtualClock
from tickwheel.errors import InvalidCursor, InvalidFilter, InvalidLimit
from tickwheel.stores.contract import Filter, Order, Total
from tickwheel.tasks.record import Status
from tickwheel.testing.stores.legal import LegalStore
from tickwheel.testing.stores.scenario import Opening, ids, raised, scenario, task

__all__ = ["Searching"]

SHOP = [
    task("order-1", 4000, tags=["vip"]),
    task("order-2", 1000, tags=["vip", "gift"]),
    task("mail-1", 3000, handler="mail.send", tags=["Gift"]),
    task("mail-2", 2000, handler="mail.send"),
    task("100%", 2000),
]


WRONG: dict[str, list[Any]] = {
    "status": ["foo", 1, ["failed"]],
    "order": ["size", [], None],
    "handler": [1, ["h"], "\ud800"],
    "id_prefix": [5, ("a", "A"), "\ud800"],
    "tag": [5, ["t"]],
    "text": [5, b"a", "\0"],
    "due_after": ["1", 1.5, True],
    "due_before": [2**64],
}


async def found(store: LegalStore, **fields: Any) -> list[str]:
    """Read all pages of a filter, two tasks each."""
    wanted, cursor, listed = Filter(**fields), None, []
    while True:
        page = await store.query(wanted, cursor, limit=2)
        listed += ids(page.tasks)
        cursor = page.cursor
        if cursor is None:
            return listed


class Searching(Opening):
    """`query` and `count`, with everything that can be asked for."""

    @scenario
    async def test_tasks_are_found_by_tag_text_and_time(self, store: LegalStore, _clock: VirtualClock) -> None:
        await store.add(SHOP)
        assert await found(store, tag="vip") == ["order-2", "order-1"]
        assert await found(store, tag="gift") == ["order-2"]
        assert await found(store, tag="gif") == []
        assert await found(store, text="ift") == ["mail-1", "order-2"]
        assert await found(store, text="mail") == ["mail-2", "mail-1"]
        assert await found(store, text="%") == ["100%"]
        assert await found(store, text="") == ids(SHOP[::-1])
        assert await found(store, due_after=1000, due_before=4000) == ["100%", "mail-2", "mail-1"]
        assert await found(store, due_before=1000) == []
        assert await found(store, text="-", tag="vip", due_after=1000) == ["order-1"]
        assert await found(store, handler="mail.send", tag="Gift", id_prefix="mail") == ["mail-1"]

    @scenario
    async def test_tasks_are_listed_in_three_orders(self, store: LegalStore, _clock: VirtualClock) -> None:
        await store.add(SHOP)
        await store.pause(["mail-2"])
        assert await found(store, order="oldest") == ids(SHOP)
        assert await found(store, order="due") == ["order-2", "100%", "mail-1", "order-1"]
        assert await found(store, order="due", status=Status.PENDING, due_after=1000, due_before=4000) == [
            "100%",
            "mail-1",
        ]
        assert await found(store, order="due", handler="mail.send") == ["mail-1"]
        assert await found(store, order="due", id_prefix="order") == ["order-2", "order-1"]
        assert await found(store, order="oldest", status=Status.PENDING) == ["order-1", "order-2", "mail-1", "100%"]
        assert await found(store, order="oldest", handler="mail.send") == ["mail-1", "mail-2"]
        assert await found(store, order="oldest", id_prefix="order") == ["order-1", "order-2"]

    @scenario
    async def test_what_cannot_be_listed_is_refused(self, store: LegalStore, _clock: VirtualClock) -> None:
        await raised(InvalidFilter, store.query(Filter(order="due", status=Status.FAILED)))
        await raised(InvalidFilter, store.count(Filter(order="due", status=Status.FAILED)))
        for field, values in WRONG.items():
            for value in values:
                wrong = Filter(**{field: value})
                error = await raised(InvalidFilter, store.query(wrong))
                assert str(error).startswith(f"invalid {field} {value!r}: expected ")
                assert (error.field, str(await raised(InvalidFilter, store.count(wrong)))) == (field, str(error))
        assert "did you mean 'failed'?" in str(await raised(InvalidFilter, store.query(Filter(status="faled"))))  # type: ignore[arg-type]
        assert (await raised(InvalidFilter, store.query("a"))).field == "filter"  # type: ignore[arg-type]
        strange: list[Any] = [5, [], "x", "", "1,\ud800"]
        for each in strange:
            assert (await raised(InvalidCursor, store.query(Filter(order="due"), each))).field == "cursor"
        assert (await raised(InvalidLimit, store.query(Filter(), None, "9"))).field == "limit"  # type: ignore[arg-type]
        cursors: list[tuple[Order, str]] = [
            ("newest", "1~"),
            ("oldest", "1"),
            ("due", "1"),
            ("due", ",a"),
            ("due", "1,"),
        ]
        for order, cursor in cursors:
            await raised(InvalidCursor, store.query(Filter(order=order), cursor))
        await raised(InvalidLimit, store.count(Filter(), 0))

    @scenario
    async def test_cursors_stay_good_in_every_order(self, store: LegalStore, _clock: VirtualClock) -> None:
        await store.add([task(f"t{n}", 1000 + n) for n in range(6)])
        oldest = await store.query(Filter(order="oldest"), limit=2)
        due = await store.query(Filter(order="due"), limit=2)
        await store.remove(["t1", "t2"])
        await store.add([task("early", 1), task("late", 2000)])
        assert ids((await store.query(Filter(order="oldest"), oldest.cursor)).tasks) == [
            "t3",
            "t4",
            "t5",
            "early",
            "late",
        ]
        assert ids((await store.query(Filter(order="due"), due.cursor)).tasks) == ["t3", "t4", "t5", "late"]

    @scenario
    async def test_a_search_for_little_in_much_comes_to_an_end(self, store: LegalStore, _clock: VirtualClock) -> None:
        many = [task(f"t{n}", tags=["rare"] if n % 5000 == 0 else []) for n in range(10_000)]
        await store.store.add(many)
        await store.store.add([task("x", tags=["rare"])])
        assert await found(store, tag="rare") == ["x", "t5000", "t0"]
        assert await found(store, text="t999", order="oldest") == ["t999", *(f"t{n}" for n in range(9990, 10_000))]

    @scenario
    async def test_tasks_are_counted(self, store: LegalStore, _clock: VirtualClock) -> None:
        await store.add(SHOP)
        await store.pause(["mail-2"])
        assert await store.count(Filter()) == Total(5, exact=True)
        assert await store.count(Filter(status=Status.PAUSED)) == Total(1, exact=True)
        assert await store.count(Filter(handler="mail.send")) == Total(2, exact=True)
        assert await store.count(Filter(tag="vip")) == Total(2, exact=True)
        assert await store.count(Filter(order="due")) == Total(4, exact=True)
        some = await store.count(Filter(text="1"), 3)
        assert some.tasks == 3 if some.exact else some.tasks <= 3
