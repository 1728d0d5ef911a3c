"""/v1/tasks:batch: many tasks in one commit, and an answer for each."""

from typing import Any

import msgspec
from litestar import post
from msgspec import UNSET, UnsetType

from tickwheel.errors import BatchTooLarge, TickwheelError
from tickwheel.server.answers import Answer, answer
from tickwheel.server.bodies import AddBody, BatchBody
from tickwheel.server.idempotency import Mark
from tickwheel.server.problems import Problem, ProblemBody, pointing, problem_of
from tickwheel.server.reading import body_of, decode
from tickwheel.server.service import Asked, Service, service_of
from tickwheel.server.shapes import TaskShape, shape_of
from tickwheel.server.tasks import masked
from tickwheel.server.wishes import wishes_of
from tickwheel.stores.contract import Conflict

__all__ = ["BatchAnswer", "BatchItem", "handlers"]


class BatchItem(msgspec.Struct, frozen=True, kw_only=True):
    """What one task of a batch came to: 201 or 200 with the task, or a problem."""

    status: int
    task: TaskShape | UnsetType = UNSET
    problem: ProblemBody | UnsetType = UNSET


class BatchAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What a batch came to, item by item."""

    items: list[BatchItem]
    added: int


@post("/v1/tasks:batch", opt={"role": "write"})
async def add_many(request: Asked) -> Answer:
    """Add those tasks that can be added."""
    service = service_of(request)

    async def work(mark: Mark | None) -> Answer:
        body = await body_of(request, BatchBody, service.config.depth_max)
        if len(body.tasks) > service.config.batch_max:
            with pointing("/tasks"):
                raise BatchTooLarge(len(body.tasks), service.config.batch_max)
        return answer(await add_all(service, request, body, mark))

    return await service.idempotency.once(request, work)


async def add_all(service: Service, request: Asked, body: BatchBody, mark: Mark | None) -> BatchAnswer:
    """Read each task, add those that could be read, and answer for all."""
    items: dict[int, BatchItem] = {}
    wishes: dict[int, dict[str, Any]] = {}
    for place, raw in enumerate(body.tasks):
        try:
            wishes[place] = read(raw, service.config.depth_max, f"/tasks/{place}")
        except Problem as problem:
            items[place] = BatchItem(status=problem.body.status, problem=problem.body)
    if any("id" in wished for wished in wishes.values()):
        mark = None  # what to do with those that are there was said
    if mark is not None:
        for place, wished in wishes.items():
            mark.put_on(wished, place)
        for there in await service.scheduler.get_many([wished["id"] for wished in wishes.values()]):
            if there is not None:
                mark.check(there)
    answers = await service.scheduler.add_each(
        list(wishes.values()), on_conflict=body.on_conflict if mark is None else "keep"
    )
    for place, added in zip(wishes, answers, strict=True):
        items[place] = item_of(service, request, added, f"/tasks/{place}")
    return BatchAnswer(
        items=[items[place] for place in range(len(body.tasks))],
        added=sum(isinstance(added, Conflict) and added.added for added in answers),
    )


def read(raw: msgspec.Raw, depth_max: int, at: str) -> dict[str, Any]:
    """Read one task of a batch."""
    body = decode(raw, AddBody, depth_max, at)
    return wishes_of(body, at)


def item_of(service: Service, request: Asked, added: Conflict | TickwheelError, at: str) -> BatchItem:
    """Answer for one task."""
    if isinstance(added, Conflict):
        return BatchItem(status=201 if added.added else 200, task=masked(service, request, shape_of(added.task)))
    problem = problem_of(added, at if added.field is None else f"{at}/{added.field}")
    return BatchItem(status=problem.body.status, problem=problem.body)


handlers = [add_many]
