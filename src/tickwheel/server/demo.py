"""Something to look at: handlers of a small shop, and tasks that come in all the time.

Orders are cancelled unless they are paid, mails are sent and sometimes fail, a report is made every few seconds, and
some things are far off.
"""

import asyncio
from random import Random
from typing import Final

from tickwheel.scheduler import AsyncScheduler
from tickwheel.tasks import RetryPolicy, TaskContext

__all__ = ["furnish", "trade"]

ORDER_S: Final = 0.5  # between two orders, on average
PAID: Final = 0.4  # the share of orders that are paid in time
BOUNCED: Final = 0.3  # the share of mails that fail


def furnish(scheduler: AsyncScheduler, chance: Random) -> None:
    """Register the handlers."""

    @scheduler.task("orders.cancel", retries=3)
    async def cancel_order(order_id: int) -> str:
        await asyncio.sleep(chance.uniform(0.01, 0.3))
        return f"order {order_id} was not paid and is cancelled"

    @scheduler.task("mail.send", retry=RetryPolicy(retries=2, first_ms=3_000))
    async def send_mail(to: str, context: TaskContext) -> str:
        await asyncio.sleep(chance.uniform(0.05, 0.5))
        if chance.random() < BOUNCED:
            raise ConnectionError(f"the mail server of {to} does not answer (attempt {context.attempt})")
        return f"sent to {to}"

    @scheduler.task("reports.make", concurrency=1)
    async def make_report(what: str) -> str:
        await asyncio.sleep(chance.uniform(0.5, 2.0))
        return f"the report on {what} is made"


async def trade(scheduler: AsyncScheduler, chance: Random) -> None:
    """Add tasks for ever."""
    await scheduler.add(
        "reports.make", {"what": "stock"}, every="10s", id="stock-report", tags=["report"], on_conflict="keep"
    )
    await scheduler.add(
        "reports.make",
        {"what": "the month"},
        cron="0 9 1 * *",
        tz="Europe/Berlin",
        id="monthly-report",
        tags=["report"],
        on_conflict="keep",
    )
    await scheduler.add(
        "mail.send",
        {"to": "ada@example.org", "api_key": "not for every eye"},
        delay="358d",
        id="membership-of-ada",
        tags=["vip"],
        on_conflict="keep",
    )
    while True:
        number = chance.randrange(10**6)
        tags = ["vip"] if number % 7 == 0 else []
        await scheduler.add(
            "orders.cancel",
            {"order_id": number},
            delay=chance.choice([5, 20, 60, 1800]),
            id=f"order-{number}",
            tags=tags,
            on_conflict="keep",
        )
        await scheduler.add(
            "mail.send", {"to": f"customer-{number}@example.org"}, delay=chance.uniform(0, 10), tags=tags
        )
        await asyncio.sleep(chance.uniform(0, 2 * ORDER_S))
        if chance.random() < PAID:
            await scheduler.cancel(f"order-{number}", "paid")
