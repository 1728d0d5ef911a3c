"""/v1/tasks: one task at a time, and lists of them."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any, Final

from litestar import delete, get, patch, post
from msgspec import UNSET
from msgspec.structs import replace

from tickwheel.errors import InvalidCursor, TaskUnreadable, UnknownTask
from tickwheel.scheduler.verbs import Action
from tickwheel.server.answers import Answer, answer
from tickwheel.server.bodies import ActionBody, AddBody, AmendBody, CancelBody, ListQuery, ResumeBody, RunsQuery
from tickwheel.server.idempotency import REPLAYED, Mark
from tickwheel.server.paths import action_of, nowhere, segments_of
from tickwheel.server.problems import Problem
from tickwheel.server.reading import body_of, query_of
from tickwheel.server.service import Asked, Service, service_of
from tickwheel.server.shapes import Added, Runs, TaskPage, TaskShape, next_runs, shape_of, shape_of_run
from tickwheel.server.wishes import filter_of, wishes_of
from tickwheel.tasks import Task, UnreadableTask

__all__ = ["handlers", "masked", "whole"]

BODIES: Final[dict[Action, type[ActionBody]]] = {
    "run": ActionBody,
    "cancel": CancelBody,
    "pause": ActionBody,
    "resume": ResumeBody,
    "retry": ActionBody,
}


def masked(service: Service, request: Asked, shape: TaskShape) -> TaskShape:
    """Hide secrets, if that was asked for."""
    if not request.scope["query_string"] or request.query_params.get("masked") not in ("true", "1"):
        return shape
    return replace(shape, args=service.mask(shape.args), meta=service.mask(shape.meta))


async def whole(service: Service, request: Asked, task: Task) -> TaskShape:
    """Write everything there is to say about a task."""
    return explained(service, request, *await service.scheduler.explain([task]))


def explained(service: Service, request: Asked, task: Task) -> TaskShape:
    """Write everything there is to say about a task that says why it is not running."""
    return masked(service, request, shape_of(task, next_runs=next_runs(task), where=service.scheduler.where(task)))


async def one(service: Service, request: Asked, task: Task) -> Answer:
    """Answer with a task that was changed."""
    return answer(await whole(service, request, task), headers={"etag": f'"{task.version}"'})


@post("/v1/tasks", opt={"role": "write"})
async def add(request: Asked) -> Answer:
    """Add a task."""
    service = service_of(request)

    async def work(mark: Mark | None) -> Answer:
        body = await body_of(request, AddBody, service.config.depth_max)
        wishes = wishes_of(body)
        marked = None if "id" in wishes else mark
        if marked is not None:
            marked.put_on(wishes)
        added = await service.scheduler.add_one(wishes, on_conflict="keep" if marked else body.on_conflict)
        if marked is not None and not added.added:  # by this request, before a restart or at another server
            marked.check(added.task)
            shape = Added(task=await whole(service, request, added.task), deduplicated=False)
            return answer(shape, 201, {"etag": f'"{added.task.version}"', **REPLAYED})
        shape = Added(task=await whole(service, request, added.task), deduplicated=not added.added)
        return answer(shape, 201 if added.added else 200, {"etag": f'"{added.task.version}"'})

    return await service.idempotency.once(request, work)


@get("/v1/tasks", opt={"role": "read"})
async def list_tasks(request: Asked) -> Answer:
    """List tasks."""
    service = service_of(request)
    asked = query_of(request, ListQuery)
    wanted = filter_of(asked, asked.order)
    cursor = None if asked.cursor is UNSET else opened(str(asked.cursor))
    page = await service.scheduler.query(wanted, cursor, asked.limit)
    total = await service.scheduler.count(wanted)
    return answer(
        TaskPage(
            tasks=[masked(service, request, shape_of(task)) for task in page.tasks],
            cursor=None if page.cursor is None else urlsafe_b64encode(page.cursor.encode()).decode().rstrip("="),
            total=total.tasks,
            total_is_exact=total.exact,
        )
    )


def opened(cursor: str) -> str:
    """Read a cursor as it was given out."""
    try:
        return urlsafe_b64decode(f"{cursor}{'=' * (-len(cursor) % 4)}").decode()
    except ValueError:
        raise InvalidCursor(cursor) from None


@get("/v1/tasks/{rest:path}", opt={"role": "read"})
async def show(request: Asked) -> Answer:
    """Show a task, or its runs."""
    service = service_of(request)
    task_id, *rest = segments_of(request)
    if rest not in ([], ["runs"]):
        raise nowhere(request)
    if not rest:
        task = await service.scheduler.get(task_id)
        return answer(explained(service, request, task), headers={"etag": f'"{task.version}"'})
    limit = query_of(request, RunsQuery).limit
    runs = await service.scheduler.history(task_id, limit)
    if not runs:
        await service.scheduler.get(task_id)
    return answer(Runs(runs=[shape_of_run(run) for run in runs]))


@post("/v1/tasks/{rest:path}", opt={"role": "write"})
async def act(request: Asked) -> Answer:
    """Run, cancel, pause, resume or retry a task."""
    service = service_of(request)
    task_id, action = action_of(request)
    if action not in BODIES:
        raise nowhere(request)
    chosen: Action = action
    kind = BODIES[chosen]

    async def work(_: object) -> Answer:
        body = await body_of(request, kind, service.config.depth_max, empty=kind())
        if chosen == "run":
            return await one(service, request, await service.scheduler.run_now(task_id))
        if chosen == "pause":
            return await one(service, request, await service.scheduler.pause(task_id))
        if isinstance(body, ResumeBody):
            return await one(service, request, await service.scheduler.resume(task_id, run_missed=body.run_missed))
        if isinstance(body, CancelBody):
            cancelled = await service.scheduler.cancel(task_id, body.reason, run_only=body.run_only)
            return await one(service, request, cancelled)
        [task] = await service.scheduler.apply(chosen, [task_id])
        if task is None:
            raise UnknownTask(task_id)
        if isinstance(task, UnreadableTask):
            raise TaskUnreadable(task_id, task.why)
        return await one(service, request, task)

    return await service.idempotency.once(request, work)


@patch("/v1/tasks/{rest:path}", opt={"role": "write"})
async def amend(request: Asked) -> Answer:
    """Change a task that waits."""
    service = service_of(request)
    task_id, *rest = segments_of(request)
    if rest:
        raise nowhere(request)

    async def work(_: object) -> Answer:
        body = await body_of(request, AmendBody, service.config.depth_max)
        before = await service.scheduler.get(task_id)
        wishes: dict[str, Any] = wishes_of(body, retry=before.retry)
        args = wishes.pop("args", None)
        task = await service.scheduler.amend(task_id, args, version=version_of(request), **wishes)
        return await one(service, request, task)

    return await service.idempotency.once(request, work)


def version_of(request: Asked) -> int | None:
    """Return the version that a task must have; None if any is right."""
    written = request.headers.get("if-match", "*").strip()
    if written == "*":
        return None
    number = written.removeprefix("W/").strip('"')
    if not (number.isascii() and number.isdigit()):
        detail = f"If-Match is the ETag of a task, not {written!r:.100}"
        raise Problem(412, "precondition-failed", "The task is another one", detail)
    return int(number)


@delete("/v1/tasks/{rest:path}", opt={"role": "write"}, status_code=204)
async def remove(request: Asked) -> None:
    """Delete a task."""
    service = service_of(request)
    task_id, *rest = segments_of(request)
    if rest:
        raise nowhere(request)
    await service.scheduler.delete(task_id)


handlers = [add, list_tasks, show, act, amend, remove]
