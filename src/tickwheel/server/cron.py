"""/v1/cron:preview: when a cron expression is due, in words and in times."""

from datetime import datetime
from zoneinfo import ZoneInfo

import msgspec
from litestar import post

from tickwheel.server.answers import Answer, answer
from tickwheel.server.bodies import CronBody
from tickwheel.server.moments import moment
from tickwheel.server.problems import pointing
from tickwheel.server.reading import body_of
from tickwheel.server.service import Asked, service_of
from tickwheel.tasks.triggers import Cron, in_words, preview

__all__ = ["CronPreview", "CronRun", "handlers"]


class CronRun(msgspec.Struct, frozen=True, kw_only=True):
    """One time, also as clocks of the place show it, and what a change of clocks does to it."""

    at: str
    local: str
    note: str | None


class CronPreview(msgspec.Struct, frozen=True, kw_only=True):
    """What an expression means."""

    words: str
    runs: list[CronRun]


@post("/v1/cron:preview", opt={"role": "read"}, status_code=200)
async def show(request: Asked) -> Answer:
    """Say when a cron expression is due."""
    service = service_of(request)
    body = await body_of(request, CronBody, service.config.depth_max)
    with pointing("/cron"):
        Cron(expression=body.cron)
    with pointing("/tz"):
        cron = Cron(expression=body.cron, tz=body.tz)
    runs = [
        CronRun(at=moment(run.at_ms), local=local(run.local, body.tz), note=run.note)
        for run in preview(cron, service.now(), body.count)
    ]
    return answer(CronPreview(words=in_words(cron), runs=runs))


def local(written: str, tz: str) -> str:
    """Write a time as people of the place do."""
    there = datetime.fromisoformat(written).astimezone(ZoneInfo(tz))
    return f"{there:%Y-%m-%d %H:%M:%S}".removesuffix(":00") + f" {there:%Z}"


handlers = [show]
