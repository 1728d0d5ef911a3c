"""A shop that cancels orders which are not paid in time, though its processes may die.

    python examples/orders.py              # a few orders, then it ends
    python examples/orders.py --keep       # goes on until Ctrl-C; kill it and start it again to see what happens
    tickwheel list --store sqlite:///orders.db

Every order has a task that cancels it after two seconds (it would be 30 minutes, or 30 days). Some are paid in time,
and their tasks are cancelled; one handler fails at first and is tried again; a report is made every three seconds.
"""

import sys
import tempfile
import threading
from itertools import count
from pathlib import Path
from random import Random

from tickwheel import Scheduler, TaskContext
from tickwheel.observe import Event
from tickwheel.tasks import RetryPolicy

KEEP = "--keep" in sys.argv
folder = tempfile.TemporaryDirectory()
where = Path("orders.db") if KEEP else Path(folder.name) / "orders.db"
scheduler = Scheduler(f"sqlite:///{where}")
unpaid: dict[int, bool] = {}


@scheduler.task("orders.cancel", retry=RetryPolicy(retries=3, first_ms=500))
def cancel_order(order_id: int, context: TaskContext) -> str:
    """Cancel an order; the first attempt at some of them fails."""
    if order_id % 5 == 0 and context.attempt == 1:
        raise ConnectionError("the payment service does not answer")
    return f"order {order_id} was not paid and is cancelled"


@scheduler.task("orders.report")
def report() -> str:
    """Report on the shop."""
    return "all is well"


def tell(event: Event) -> None:
    """Print what happens."""
    if event.kind in ("completed", "retried", "recovered", "cancelled"):
        print(f"{event.task_id}: {event.kind}{', ' + event.reason if event.reason else ''}", flush=True)


def trade(ended: threading.Event) -> None:
    """Take an order now and then; every third is paid in time."""
    chance = Random()
    first = chance.randrange(10**6) if KEEP else 1
    for number in count(first):
        scheduler.add("orders.cancel", {"order_id": number}, delay="2s", id=f"order-{number}")
        print(f"order-{number}: placed", flush=True)
        if number % 3 == 0:
            scheduler.cancel(f"order-{number}", "paid")
        if ended.wait(1.0 if KEEP else 0.2) or (not KEEP and number == first + 5):
            break


if __name__ == "__main__":
    scheduler.events.listen(tell)
    ended = threading.Event()
    with scheduler:
        print(f"tasks are in {where}; {scheduler.recovery}", flush=True)
        scheduler.add("orders.report", every="3s", id="report", on_conflict="keep")
        try:
            trade(ended)
            ended.wait(4.0)
        except KeyboardInterrupt:
            print("stopping; what runs may end", flush=True)
    folder.cleanup()
