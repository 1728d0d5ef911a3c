"""A shop on SQLite that cancels orders which are not paid in time, though it may be killed at any moment.

    python examples/orders_sqlite.py                    # a few orders, in seconds instead of 30 minutes and 30 days
    python examples/orders_sqlite.py FOLDER             # the same on files that stay: kill it, and start it again

An order and the task that cancels it should be there both, or neither. They are in two files, and no transaction of
SQLite is atomic over two files that are written ahead (WAL). So the wish for a task is written into an outbox in the
shop's own database, in the order's own transaction. From there the task is added, and only then is the wish taken out.
A crash in between adds it again, under the same id: it is there once. On PostgreSQL one transaction does it all, see
orders_postgres.py.
"""

import json
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import sleep

from tickwheel import Scheduler
from tickwheel.errors import UnknownTask

PAYABLE_FOR = {"card": timedelta(minutes=30), "invoice": timedelta(days=30)}
QUICKLY = {"card": timedelta(seconds=1), "invoice": timedelta(seconds=5)}  # for a demonstration

TABLES = """
CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, state TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS outbox (task_id TEXT PRIMARY KEY, handler TEXT, args TEXT, due TEXT);
"""


class Shop:
    """Orders in one file, tasks in another."""

    def __init__(self, folder: Path, payable_for: dict[str, timedelta] = PAYABLE_FOR) -> None:
        self.path = folder / "shop.db"
        self.payable_for = payable_for
        self.scheduler = Scheduler(f"sqlite:///{folder}/tasks.db")
        self.scheduler.task("orders.cancel", retries=10)(self.cancel)
        self.scheduler.task("outbox.forward", retries=10)(self.forward)
        with self.database() as database:
            database.executescript(TABLES)

    @contextmanager
    def database(self) -> Iterator[sqlite3.Connection]:
        """Open the shop's own database for one transaction."""
        with closing(sqlite3.connect(self.path, timeout=30)) as database, database:
            yield database

    def open(self) -> None:
        """Begin to run tasks, and look into the outbox now and then: whoever filled it may have died."""
        self.scheduler.start()
        self.scheduler.add("outbox.forward", every="5s", id="outbox.forward", on_conflict="keep")
        self.forward()

    def place(self, order: int, payment: str) -> None:
        """Take an order, and with it, in one transaction, the wish to have it cancelled in time."""
        due = datetime.now(UTC) + self.payable_for[payment]
        with self.database() as database:
            database.execute("INSERT INTO orders VALUES (?, 'unpaid')", [order])
            wish = (f"cancel/{order}", "orders.cancel", json.dumps({"order": order}), due.isoformat())
            database.execute("INSERT INTO outbox VALUES (?, ?, ?, ?)", wish)
        self.forward()

    def forward(self) -> None:
        """Add what is in the outbox. At least once, and by its id there is one task of it."""
        with self.database() as database:
            wishes = database.execute("SELECT task_id, handler, args, due FROM outbox LIMIT 1000").fetchall()
        for task_id, handler, args, due in wishes:
            at = datetime.fromisoformat(due)
            self.scheduler.add(handler, json.loads(args), at=at, id=task_id, on_conflict="keep")
        with self.database() as database:
            database.executemany("DELETE FROM outbox WHERE task_id = ?", [wish[:1] for wish in wishes])

    def pay(self, order: int) -> bool:
        """Pay an order, unless it is too late."""
        with self.database() as database:
            paid = database.execute("UPDATE orders SET state = 'paid' WHERE id = ? AND state = 'unpaid'", [order])
        if paid.rowcount:
            with suppress(UnknownTask):  # it may still be in the outbox; `cancel` looks for itself
                self.scheduler.cancel(f"cancel/{order}", "paid")
        return paid.rowcount == 1

    def cancel(self, order: int) -> str:
        """Cancel an order if it is still unpaid; a second run finds nothing to do."""
        with self.database() as database:
            database.execute("UPDATE orders SET state = 'cancelled' WHERE id = ? AND state = 'unpaid'", [order])
            [(state,)] = database.execute("SELECT state FROM orders WHERE id = ?", [order])
        return f"order {order} is {state}"

    def states(self) -> dict[int, str]:
        """Return how the orders stand."""
        with self.database() as database:
            return dict(database.execute("SELECT id, state FROM orders ORDER BY id"))


def main(folder: Path) -> None:
    """Take three orders, of which one is paid, and wait until none is open."""
    shop = Shop(folder, QUICKLY)
    shop.open()
    first = max(shop.states(), default=0) + 1
    shop.place(first, "card")
    shop.place(first + 1, "invoice")
    shop.place(first + 2, "card")
    print(f"order {first + 1} is paid:", shop.pay(first + 1))
    while "unpaid" in shop.states().values():
        sleep(0.05)
    for order, state in shop.states().items():
        print(f"order {order}: {state}")
    print(f"order {first} is paid:", shop.pay(first))
    shop.scheduler.stop()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as passing:
        main(Path(sys.argv[1] if len(sys.argv) > 1 else passing))
