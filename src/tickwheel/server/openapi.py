"""/openapi.json: every address, what it takes and what it answers, from the structs themselves.

The table below is the one place that says which struct is where; a test holds every answer against it.
"""

from typing import Any, Final, NamedTuple

import msgspec
from litestar import get

from tickwheel.scheduler.verbs import Action
from tickwheel.server.answers import Answer, answer
from tickwheel.server.batch import BatchAnswer
from tickwheel.server.bodies import (
    AckBody,
    AddBody,
    AmendBody,
    CronBody,
    ExtendBody,
    FilterBody,
    LeaseBody,
    ListQuery,
    NackBody,
    OperationBody,
    RunsQuery,
    SessionBody,
)
from tickwheel.server.bulk import Operation
from tickwheel.server.cron import CronPreview
from tickwheel.server.health import Health
from tickwheel.server.operations import OperationList
from tickwheel.server.problems import MEDIA_TYPE, ProblemBody
from tickwheel.server.session import Me
from tickwheel.server.shapes import Added, Extended, Messages, Runs, TaskPage, TaskShape
from tickwheel.server.stats import ClusterShape, HandlerList, StatsShape
from tickwheel.server.tasks import BODIES
from tickwheel.server.wheels import SlotShape, WheelsShape
from tickwheel.stores.contract import OnConflict

__all__ = ["document", "handlers"]

REF: Final = "#/components/schemas/{name}"
PROBLEMS: Final = (400, 401, 403, 404, 405, 409, 412, 413, 415, 422, 429, 503)


class BatchBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Many tasks; each is read by itself, so that one that is wrong harms no other."""

    tasks: list[AddBody]
    on_conflict: OnConflict = "reject"


class Masked(msgspec.Struct, kw_only=True):
    """Whether secrets are hidden."""

    masked: bool = False


class Address(NamedTuple):
    """What can be done at an address."""

    method: str
    path: str
    words: str
    answers: dict[int, Any]
    body: Any = None
    query: Any = None
    keyed: bool = False  # an Idempotency-Key is honoured
    body_needed: bool = True


def _act(name: Action, words: str) -> Address:
    body = BODIES[name]
    return Address(
        "post", f"/v1/tasks/{{id}}:{name}", words, {200: TaskShape}, body, Masked, keyed=True, body_needed=False
    )


def _settle(name: str, words: str, kind: Any, body: Any) -> Address:
    return Address("post", f"/v1/queues/{{queue}}/messages/{{id}}:{name}", words, {200: kind}, body)


ADDRESSES: Final = (
    Address("post", "/v1/tasks", "Add a task", {201: Added, 200: Added}, AddBody, Masked, keyed=True),
    Address("get", "/v1/tasks", "List tasks", {200: TaskPage}, query=ListQuery),
    Address(
        "post", "/v1/tasks:batch", "Add many tasks in one commit", {200: BatchAnswer}, BatchBody, Masked, keyed=True
    ),
    Address("get", "/v1/tasks/{id}", "Show a task", {200: TaskShape}, query=Masked),
    Address("patch", "/v1/tasks/{id}", "Change a task that waits", {200: TaskShape}, AmendBody, Masked, keyed=True),
    Address("delete", "/v1/tasks/{id}", "Delete a task that does not run", {204: None}),
    Address("get", "/v1/tasks/{id}/runs", "List the runs of a task", {200: Runs}, query=RunsQuery),
    _act("run", "Run a task that waits now"),
    _act("cancel", "Cancel a task; a running one is asked to stop"),
    _act("pause", "Keep a task from coming due"),
    _act("resume", "Let a paused task come due again"),
    _act("retry", "Let a task that is over run again"),
    Address(
        "post",
        "/v1/operations",
        "Do the same to many tasks",
        {202: Operation, 200: Operation},
        OperationBody,
        keyed=True,
    ),
    Address("get", "/v1/operations", "List the latest operations", {200: OperationList}),
    Address("get", "/v1/operations/{id}", "Show how far an operation is", {200: Operation}),
    Address("post", "/v1/cron:preview", "Say when a cron expression is due", {200: CronPreview}, CronBody),
    Address("post", "/v1/queues/{queue}:lease", "Lease messages from a queue", {200: Messages}, LeaseBody),
    _settle("ack", "Say that a message is done", TaskShape, AckBody),
    _settle("nack", "Give a message back, to be tried again", TaskShape, NackBody),
    _settle("extend", "Let a lease last longer", Extended, ExtendBody),
    Address("get", "/v1/wheels", "Show the wheel", {200: WheelsShape}),
    Address("get", "/v1/wheels/{level}/{slot}", "Show what waits in a slot", {200: SlotShape}),
    Address("get", "/v1/stats", "Say how it goes", {200: StatsShape}),
    Address("get", "/v1/cluster", "Say who owns what", {200: ClusterShape}),
    Address("get", "/v1/handlers", "List what can be run", {200: HandlerList}),
    Address("get", "/v1/events", "Listen to what happens, as server-sent events", {200: str}),
    Address("get", "/v1/me", "Say what the one who asks may do", {200: Me}),
    Address("post", "/v1/session", "Exchange a token for a cookie", {200: Me}, SessionBody),
    Address("delete", "/v1/session", "Forget the cookie", {204: None}),
    Address("get", "/livez", "Say that the process lives", {200: Health}),
    Address("get", "/healthz", "Say that the process lives, by another name", {200: Health}),
    Address("get", "/readyz", "Say whether requests should be sent here", {200: Health, 503: Health}),
)
NUMBERS: Final = ("level", "slot")


def document() -> dict[str, Any]:
    """Write the document."""
    kinds = [kind for address in ADDRESSES for kind in (*address.answers.values(), address.body) if _is_struct(kind)]
    queries = [address.query for address in ADDRESSES if address.query is not None]
    _, components = msgspec.json.schema_components([*kinds, FilterBody, *queries, ProblemBody], ref_template=REF)
    paths: dict[str, dict[str, Any]] = {}
    for address in ADDRESSES:
        paths.setdefault(address.path, {})[address.method] = _operation(address, components)
    return {
        "openapi": "3.1.0",
        "info": {"title": "tickwheel", "version": "1", "description": "Durable delayed, periodic and cron tasks."},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _operation(address: Address, components: dict[str, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "summary": address.words,
        "parameters": [*_in_path(address.path), *_in_query(address, components), *_in_headers(address)],
        "responses": {str(status): _answer(kind, address.words) for status, kind in address.answers.items()},
    }
    for status in PROBLEMS:
        operation["responses"].setdefault(str(status), _problem())
    if address.body is not None:
        operation["requestBody"] = {
            "required": address.body_needed,
            "content": {"application/json": {"schema": {"$ref": REF.format(name=address.body.__name__)}}},
        }
    return operation


def _in_path(path: str) -> list[dict[str, Any]]:
    names = [part.partition("}")[0] for part in path.split("{")[1:]]
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": {"type": "integer", "minimum": 0} if name in NUMBERS else {"type": "string", "minLength": 1},
        }
        for name in names
    ]


def _in_query(address: Address, components: dict[str, Any]) -> list[dict[str, Any]]:
    if address.query is None:
        return []
    fields = components[address.query.__name__]["properties"]
    return [{"name": name, "in": "query", "schema": schema} for name, schema in fields.items()]


def _in_headers(address: Address) -> list[dict[str, Any]]:
    wanted = [("Idempotency-Key", address.keyed), ("If-Match", address.method == "patch")]
    wanted.append(("Last-Event-ID", address.path == "/v1/events"))
    return [{"name": name, "in": "header", "schema": {"type": "string"}} for name, there in wanted if there]


def _answer(kind: Any, words: str) -> dict[str, Any]:
    if kind is None:
        return {"description": words}
    if kind is str:
        return {"description": words, "content": {"text/event-stream": {"schema": {"type": "string"}}}}
    return {
        "description": words,
        "content": {"application/json": {"schema": {"$ref": REF.format(name=kind.__name__)}}},
    }


def _problem() -> dict[str, Any]:
    schema = {"$ref": REF.format(name=ProblemBody.__name__)}
    return {"description": "A problem", "content": {MEDIA_TYPE: {"schema": schema}}}


@get("/openapi.json", opt={"role": None})
async def show() -> Answer:
    """Describe the API."""
    return answer(document())


handlers = [show]
