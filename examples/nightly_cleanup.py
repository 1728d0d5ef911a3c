"""Clean up every night at half past two: sessions that are over, and tasks that have been for long.

    python examples/nightly_cleanup.py          # five days in a moment

On the night the clocks go forward there is no half past two: it runs at three. A night that was missed is skipped:
nobody wants this at noon, and the next night does the same work.
"""

import asyncio
from datetime import datetime
from zoneinfo import ZoneInfo

from tickwheel import AsyncScheduler, VirtualClock, aio

HOME = ZoneInfo("Europe/Berlin")
HOUR = 3_600

# For real: scheduler = AsyncScheduler("sqlite:///tasks.db"), and no clock.
clock = VirtualClock(int(datetime(2024, 3, 28, 12, tzinfo=HOME).timestamp()) * 10**9)
scheduler = AsyncScheduler("memory://", clock=clock, lease_ttl_ms=HOUR * 1000, rescan_ms=HOUR * 1000)
sessions: dict[str, datetime] = {}  # until when each is good


def now() -> datetime:
    """Read the clock on the wall."""
    return datetime.fromtimestamp(clock.time_ns() / 1e9, HOME)


@scheduler.task("mail.send")
async def send(to: str) -> None:
    """Do the work of the day."""


@scheduler.task("nightly.clean", retries=3, timeout="1h")
async def clean() -> dict[str, int]:
    """Delete what is over. At least once: a second run finds nothing left."""
    over = [key for key, until in sessions.items() if until < now()]
    for key in over:
        del sessions[key]
    tasks = await scheduler.purge("24h")  # those that ended earlier; without this they go after seven days
    print(f"{now():%a %Y-%m-%d %H:%M %z}  {len(over)} sessions, {tasks} tasks")
    return {"sessions": len(over), "tasks": tasks}


async def main() -> None:
    """Live through some days, each with sessions and mails."""
    async with scheduler:
        await scheduler.add("nightly.clean", cron="30 2 * * *", tz=HOME.key, late="skip", id="nightly.clean")
        for day in range(5):
            for number in range(10):
                sessions[f"{day}/{number}"] = datetime.fromtimestamp(now().timestamp() + number * 4 * HOUR, HOME)
                await scheduler.add("mail.send", {"to": f"customer {number}"}, delay="1h")
            await asyncio.sleep(24 * HOUR)
    print(f"{len(sessions)} sessions are left")


if __name__ == "__main__":
    aio.run(main(), clock=clock)
