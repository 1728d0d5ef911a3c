"""/v1/wheels: what the wheel looks like now, and what waits in a slot."""

import msgspec
from litestar import get

from tickwheel.server.answers import Answer, answer
from tickwheel.server.moments import moment, moment_or_none, seconds
from tickwheel.server.service import Asked, service_of
from tickwheel.stores.contract import Filter
from tickwheel.tasks import Status

__all__ = ["DialShape", "SlotShape", "WaitingShape", "WheelsShape", "handlers"]

SHOWN_MAX = 50
TICK_S = 0.001  # of the due index


class DialShape(msgspec.Struct, frozen=True, kw_only=True):
    """One dial."""

    level: int
    slots: int
    hand: int
    slot_seconds: float
    occupancy: list[int]
    timers: int


class WheelsShape(msgspec.Struct, frozen=True, kw_only=True):
    """The wheel of what is due soon; `far` is what waits in the store alone."""

    now: str
    tick: float
    levels: list[DialShape]
    overflow: int
    far: int
    next_due: str | None


class WaitingShape(msgspec.Struct, frozen=True, kw_only=True):
    """A task in a slot."""

    id: str
    name: str
    due: str


class SlotShape(msgspec.Struct, frozen=True, kw_only=True):
    """What waits in a slot: some of it, and how much more there is."""

    tasks: list[WaitingShape]
    more: int


@get("/v1/wheels", opt={"role": "read"})
async def show(request: Asked) -> Answer:
    """Show all dials."""
    service = service_of(request)
    pending = (await service.scheduler.counts())[Status.PENDING]
    first = (await service.scheduler.query(Filter(order="due"), limit=1)).tasks
    picture = service.scheduler.dials()
    levels = [
        DialShape(
            level=level,
            slots=len(dial.occupancy),
            hand=dial.hand,
            slot_seconds=seconds(dial.slot_ms),
            occupancy=dial.occupancy,
            timers=sum(dial.occupancy),
        )
        for level, dial in enumerate(() if picture is None else picture.dials)
    ]
    overflow = 0 if picture is None else picture.overflow
    return answer(
        WheelsShape(
            now=moment(service.now()),
            tick=TICK_S,
            levels=levels,
            overflow=overflow,
            far=max(pending - overflow - sum(level.timers for level in levels), 0),
            next_due=moment_or_none(first[0].run_at if first else None),
        )
    )


@get("/v1/wheels/{level:int}/{slot:int}", opt={"role": "read"})
async def show_slot(request: Asked) -> Answer:
    """Show what waits in a slot."""
    service = service_of(request)
    waiting = list(service.scheduler.slot(request.path_params["level"], request.path_params["slot"]))
    tasks = await service.scheduler.get_many([due.id for due in waiting[:SHOWN_MAX]])
    shown = [WaitingShape(id=task.id, name=task.handler, due=moment(task.run_at)) for task in tasks if task is not None]
    return answer(SlotShape(tasks=shown, more=max(len(waiting) - SHOWN_MAX, 0)))


handlers = [show, show_slot]
