"""The program whose tasks the dashboard shows in the tests."""

import asyncio

from tickwheel import AsyncScheduler, TaskContext

scheduler = AsyncScheduler("memory://", grace_s=1.0)


@scheduler.task("orders.cancel")
async def cancel_order(context: TaskContext, **args: object) -> str:
    """Do what is easily done."""
    return f"{context.id}: {len(args)} arguments"


@scheduler.task("orders.refuse")
async def refuse(why: str = "the payment service does not answer", **args: object) -> None:
    """Fail, for a reason of the caller's."""
    raise ConnectionError(f"{why}, though asked with {sorted(args)}")


@scheduler.task("<i>evil</i>")
async def be_named_badly(**args: object) -> int:
    """Have a name that would be dangerous on a page that took it for HTML."""
    return len(args)


@scheduler.task("reports.daily")
async def report() -> str:
    """Report on the shop."""
    return "all is well"


@scheduler.task("orders.count")
async def count_slowly(seconds: float = 30) -> None:
    """Take a while."""
    await asyncio.sleep(seconds)
