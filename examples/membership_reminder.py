"""Remind members a week before their year is over, at nine in the morning where they live.

    python examples/membership_reminder.py          # four years in a moment

A year is a year of the calendar, not 365 days. Each reminder is counted from the day of joining, so that who joined
on 29 February has 28 February in other years, and 29 February again when there is one. The task of a year adds that of
the next, under an id of its own: added twice, after a crash, it is there once.
"""

import asyncio
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from tickwheel import AsyncScheduler, TaskContext, VirtualClock, aio

WEEK = timedelta(days=7)
NINE = time(9)
MONTH_MS = 30 * 86_400_000  # on a clock that jumps, leases may be long

# For real: scheduler = AsyncScheduler("sqlite:///tasks.db"), and no clock.
clock = VirtualClock(int(datetime(2024, 2, 29, 12, tzinfo=UTC).timestamp()) * 10**9)
scheduler = AsyncScheduler("memory://", clock=clock, lease_ttl_ms=MONTH_MS, rescan_ms=MONTH_MS, horizon_ms=MONTH_MS)


@dataclass(frozen=True)
class Member:
    """Someone who joined on a day, in a place."""

    joined: date
    tz: str


members = {
    "Ada": Member(date(2024, 2, 29), "Europe/Berlin"),
    "Grace": Member(date(2023, 11, 5), "America/New_York"),  # where clocks go back a few days before
}


def anniversary(joined: date, years: int) -> date:
    """Return the day on which so many years are over: 28 February where there is no 29th."""
    try:
        return joined.replace(year=joined.year + years)
    except ValueError:
        return date(joined.year + years, 2, 28)


def reminder_at(member: Member, years: int) -> datetime:
    """Return nine in the morning, by the clocks of the place, a week before."""
    return datetime.combine(anniversary(member.joined, years) - WEEK, NINE, ZoneInfo(member.tz))


async def expect(name: str, years: int) -> None:
    """Add the reminder of a year; adding it again changes nothing."""
    at = reminder_at(members[name], years)
    await scheduler.add(
        "membership.remind", {"name": name, "years": years}, at=at, id=f"remind/{name}/{years}", on_conflict="keep"
    )


@scheduler.task("membership.remind", retries=10)
async def remind(name: str, years: int, context: TaskContext) -> None:
    """Write to a member who is still one. At least once: the key lets the mailer send it once."""
    member = members.get(name)
    if member is None:
        return  # left meanwhile
    await expect(name, years + 1)
    now = datetime.fromtimestamp(clock.time_ns() / 1e9, ZoneInfo(member.tz))
    print(f"{now:%Y-%m-%d %H:%M %z}  {name}: until {anniversary(member.joined, years)}; key {context.occurrence_id}")


async def main() -> None:
    """Let four years pass; one member leaves after two."""
    async with scheduler:
        for name in members:
            await expect(name, 1)
        await asyncio.sleep(2 * 366 * 86_400)
        del members["Grace"]
        await asyncio.sleep(2 * 366 * 86_400)


if __name__ == "__main__":
    aio.run(main(), clock=clock)
