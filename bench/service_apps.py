"""What `bench.service` serves: a scheduler with one handler, and an empty application to compare with."""

from __future__ import annotations

from typing import Any

from litestar import Litestar, Request, post

from tickwheel import AsyncScheduler

__all__ = ["empty", "scheduler"]

scheduler = AsyncScheduler("sqlite:///tasks.db")


@scheduler.task("noop")
async def noop(order_id: int) -> None:
    """Do nothing."""


@post("/v1/tasks")
async def take(request: Request[Any, Any, Any]) -> dict[str, str]:
    """Read the body and answer, and do nothing with it."""
    await request.body()
    return {}


empty = Litestar([take], openapi_config=None, logging_config=None)
