"""A program with one handler that does nothing: what `bench.dashboard` serves."""

from tickwheel import AsyncScheduler

__all__ = ["scheduler"]

scheduler = AsyncScheduler("memory://")


@scheduler.task("wait")
async def wait() -> None:
    """Be there."""
