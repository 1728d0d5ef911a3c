"""A shop on PostgreSQL that cancels orders which are not paid in time: an order and its task are one transaction.

    python examples/orders_postgres.py                          # on a server of its own, gone afterwards
    python examples/orders_postgres.py postgresql://user:password@host/shop

It needs `pip install 'tickwheel[postgres]' 'psycopg[binary]'`; any driver does. `tickwheel_add` writes the task in the
transaction that calls it: both are committed, or neither is. It runs in seconds instead of 30 minutes and 30 days.
"""

import json
import sys
from time import sleep

import psycopg

from tickwheel import Scheduler
from tickwheel.testing.postgres import PostgresServer

PAYABLE_FOR = {"card": "30 minutes", "invoice": "30 days"}
QUICKLY = {"card": "1 second", "invoice": "5 seconds"}  # for a demonstration

TABLES = "CREATE TABLE IF NOT EXISTS orders (id int PRIMARY KEY, state text NOT NULL)"
ADD = "SELECT tickwheel.tickwheel_add('orders.cancel', %s, delay => %s::interval, id => %s, retries => 10)"


class Shop:
    """Orders and tasks in one database."""

    def __init__(self, url: str, payable_for: dict[str, str] = PAYABLE_FOR) -> None:
        self.url = url
        self.payable_for = payable_for
        self.scheduler = Scheduler(url)
        self.scheduler.task("orders.cancel")(self.cancel)
        with psycopg.connect(url) as connection:
            connection.execute(TABLES)

    def place(self, order: int, payment: str) -> None:
        """Take an order, and with it the task that cancels it: committed both, or neither."""
        with psycopg.connect(self.url) as connection:
            connection.execute("INSERT INTO orders VALUES (%s, 'unpaid')", [order])
            task = (json.dumps({"order": order}), self.payable_for[payment], f"cancel/{order}")
            connection.execute(ADD, task)

    def pay(self, order: int) -> bool:
        """Pay an order, unless it is too late."""
        with psycopg.connect(self.url) as connection:
            paid = connection.execute("UPDATE orders SET state = 'paid' WHERE id = %s AND state = 'unpaid'", [order])
        if paid.rowcount:
            self.scheduler.cancel(f"cancel/{order}", "paid")  # to be tidy: `cancel` looks for itself
        return paid.rowcount == 1

    def cancel(self, order: int) -> str:
        """Cancel an order if it is still unpaid. At least once: a second run finds nothing to do."""
        with psycopg.connect(self.url) as connection:
            connection.execute("UPDATE orders SET state = 'cancelled' WHERE id = %s AND state = 'unpaid'", [order])
            [(state,)] = connection.execute("SELECT state FROM orders WHERE id = %s", [order])
        return f"order {order} is {state}"

    def states(self) -> dict[int, str]:
        """Return how the orders stand."""
        with psycopg.connect(self.url) as connection:
            return dict(connection.execute("SELECT id, state FROM orders ORDER BY id").fetchall())


def main(url: str) -> None:
    """Take three orders, of which one is paid, and wait until none is open."""
    shop = Shop(url, QUICKLY)
    with shop.scheduler:  # makes its tables, and runs tasks
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


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        with PostgresServer.fresh() as server:
            main(server.url)
