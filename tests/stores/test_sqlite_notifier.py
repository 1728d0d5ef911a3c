"""Processes on one SQLite file tell each other of changes, and know when they may have missed one."""

import asyncio
import sys
import threading
from pathlib import Path

import pytest

from tickwheel.stores.contract import Change
from tickwheel.stores.notifications import News
from tickwheel.stores.sqlite.notifier import QUEUE_FULL, Notifier

LOCK = "tasks.db-node-1"

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no such sockets")


@pytest.mark.parametrize(
    ("sent", "runs", "counted"),
    [
        (1, False, {}),
        (2, True, {0: 1}),
        (QUEUE_FULL + 5, False, {0: 1, 1: 1}),  # what was lost may have been anything
    ],
)
def test_what_others_tell_of_running_tasks_is_counted_at_once(
    sent: int, runs: bool, counted: dict[int, int], tmp_path: Path
) -> None:
    async def main() -> None:
        everywhere = News.unknown([0, 1])
        told: list[News] = []
        receiver = Notifier(tmp_path / "tasks.db", everywhere, told.append)
        receiver.listen(str(tmp_path / LOCK))
        sender = Notifier(tmp_path / "tasks.db", everywhere, told.append)
        for number in range(1, sent + 1):
            sender.send(number, News({0: Change(7, 7, runs=runs)}), [LOCK])
        assert dict(receiver.running_changes()) == counted
        assert told == [{0: Change(7, 7, runs=runs)}]
        assert dict(receiver.running_changes()) == counted, "once"
        receiver.end()
        sender.end()

    asyncio.run(main())


def test_a_node_that_reads_nothing_keeps_no_change_from_the_others(tmp_path: Path) -> None:
    async def main() -> None:
        everywhere = News.unknown(range(1_000))
        suspended, receiver, sender = (Notifier(tmp_path / "tasks.db", everywhere, lambda _: None) for _ in range(3))
        suspended.listen(str(tmp_path / LOCK))
        receiver.listen(str(tmp_path / f"{LOCK}0"))
        # Large ones: what one socket has sent, and nobody has read, takes some 200 KB at the most.
        many = News({part: Change(10**12 + part, 10**12 + part, runs=True) for part in range(1_000)})
        for number in range(1, QUEUE_FULL + 1):
            sender.send(number, many, [LOCK, f"{LOCK}0"])
            assert receiver.running_changes()[0] == number
        for notifier in (suspended, receiver, sender):
            notifier.end()

    asyncio.run(main())


def test_a_thread_that_counts_changes_has_them_told_on_the_event_loop(tmp_path: Path) -> None:
    async def main() -> None:
        everywhere = News.unknown([0, 1])
        told: list[tuple[News, int]] = []
        receiver = Notifier(tmp_path / "tasks.db", everywhere, lambda news: told.append((news, threading.get_ident())))
        receiver.listen(str(tmp_path / LOCK))
        sender = Notifier(tmp_path / "tasks.db", everywhere, lambda _: None)
        sender.send(1, News({0: Change(7, 7, runs=True)}), [LOCK])
        counted: list[int] = []
        thread = threading.Thread(target=lambda: counted.append(receiver.running_changes()[0]))
        thread.start()
        thread.join()  # holding up the loop, which would receive it first
        assert (counted, told) == ([1], [])
        await asyncio.sleep(0)
        assert told == [({0: Change(7, 7, runs=True)}, threading.get_ident())]
        receiver.end()
        sender.end()

    asyncio.run(main())
