"""/v1/operations: the same for many tasks."""

import msgspec
from litestar import get, post

from tickwheel.scheduler.verbs import aimed_at
from tickwheel.server.answers import Answer, answer
from tickwheel.server.bodies import OperationBody
from tickwheel.server.bulk import Operation
from tickwheel.server.problems import Problem, pointing
from tickwheel.server.reading import body_of
from tickwheel.server.service import Asked, service_of
from tickwheel.server.wishes import filter_of

__all__ = ["OperationList", "handlers"]


class OperationList(msgspec.Struct, frozen=True):
    """The latest operations, latest first."""

    operations: list[Operation]


@post("/v1/operations", opt={"role": "write"})
async def begin(request: Asked) -> Answer:
    """Begin an operation, or say what it would touch."""
    service = service_of(request)

    async def work(_: object) -> Answer:
        body = await body_of(request, OperationBody, service.config.depth_max)
        wanted = filter_of(body.filter)
        with pointing("/filter"):
            aimed_at(body.action, wanted)
        if body.action == "delete" and not request.user.may("admin"):
            raise Problem(403, "forbidden", "The token is not good for this", "deleting in bulk takes the role 'admin'")
        operation = await service.operations.begin(body.action, body.filter, wanted, dry_run=body.dry_run)
        return answer(operation, 200 if body.dry_run else 202)

    return await service.idempotency.once(request, work)


@get("/v1/operations", opt={"role": "read"})
async def list_operations(request: Asked) -> Answer:
    """List the latest operations."""
    return answer(OperationList(service_of(request).operations.listed()))


@get("/v1/operations/{operation_id:str}", opt={"role": "read"})
async def show(request: Asked) -> Answer:
    """Show how far an operation is."""
    return answer(service_of(request).operations.find(request.path_params["operation_id"]))


handlers = [begin, list_operations, show]
