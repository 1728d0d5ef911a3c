"""Make a report on the first of each month, at midnight where the office is, and leave no month out.

    python examples/monthly_report.py           # eight months in a moment, two of them with the office shut

What a report is about follows from the moment it was meant for, not from when it is made: a run that comes late, or
again after a crash, writes the same report to the same place.
"""

import asyncio
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from tickwheel import AsyncScheduler, TaskContext, VirtualClock, aio
from tickwheel.stores import MemoryStore

OFFICE = ZoneInfo("Asia/Shanghai")
DAY = 86_400

clock = VirtualClock(int(datetime(2024, 1, 15, tzinfo=UTC).timestamp()) * 10**9)
store = MemoryStore(now_ms=lambda: clock.time_ns() // 1_000_000)  # for real: "sqlite:///tasks.db", and no clock
reports: dict[str, str] = {}


def office() -> AsyncScheduler:
    """Make a scheduler that knows how to report."""
    scheduler = AsyncScheduler(store, clock=clock, lease_ttl_ms=DAY * 1000, rescan_ms=DAY * 1000, horizon_ms=DAY * 1000)
    scheduler.task("reports.monthly", retries=10)(report)
    return scheduler


async def report(context: TaskContext) -> str:
    """Report on the month that was over at the moment this is for. At least once: the month is the report's key."""
    first = datetime.fromtimestamp(context.scheduled_at / 1000, OFFICE)
    month = f"{first - timedelta(days=1):%B %Y}"
    now = datetime.fromtimestamp(clock.time_ns() / 1e9, OFFICE)
    reports[month] = f"made {now:%Y-%m-%d %H:%M %z}"
    return month


async def main() -> None:
    """Report, shut the office for two months, and report on what was missed."""
    async with office() as scheduler:
        # `run_all`: what was missed is made up for, month by month; the usual is one run for all.
        await scheduler.add("reports.monthly", cron="0 0 1 * *", tz=OFFICE.key, late="run_all", id="reports.monthly")
        await asyncio.sleep(80 * DAY)
    clock.advance(70 * DAY)  # nothing runs
    async with office():
        await asyncio.sleep(90 * DAY)
    for month, made in reports.items():
        print(f"{month:13} {made}")


if __name__ == "__main__":
    aio.run(main(), clock=clock)
