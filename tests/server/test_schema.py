"""Whatever fits the description at /openapi.json, or nearly does, is answered as the description says."""

from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode, checks

from tests.server.served import Served
from tickwheel.server.app import TOPICS
from tickwheel.server.openapi import ADDRESSES, Address

EXAMPLES = 25  # for each address
CHECKS = [
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
]


# What chance alone would hardly ever write.
FITTING = {
    "handler": "echo",
    "delay": "1h",
    "every": 60,
    "cron": "0 9 * * *",
    "timeout": "5m",
    "at_most_once": False,
    "on_conflict": "replace",
}
TWICE = {"webhook": "handler", "queue": "handler"}
APART = {"at": "delay", "cron": "every", "retries": "retry", "tz": "", **TWICE}  # what does not go together
ALONE = ("/operations/", "/messages/")  # addresses of what chance does not know the name of


def at_once(case: Any) -> Any:
    """Let nobody wait for messages that do not come."""
    if isinstance(case.body, dict) and isinstance(case.body.get("wait"), int | float):
        case.body["wait"] = 0
    return case


def likely(case: Any) -> Any:
    """Make of what fits the description something that can be done: with a handler that is there, and a task."""
    if "id" in (case.path_parameters or {}):
        case.path_parameters["id"] = "known"
    bodies = case.body.get("tasks", [case.body]) if isinstance(case.body, dict) else []
    for body in bodies:
        if case.path in ("/v1/tasks", "/v1/tasks:batch"):
            body["handler"] = "echo"
        body |= {name: value for name, value in FITTING.items() if name in body}
        for name, other in APART.items():
            if other in body or not other:
                body.pop(name, None)
    return case


@pytest.fixture(scope="module")
def description(server: Served) -> Any:
    return schemathesis.openapi.from_url(f"{server.url}openapi.json")


@pytest.mark.parametrize(
    "address",
    [address for address in ADDRESSES if address.path != "/v1/events"],  # a stream has no end
    ids=lambda address: f"{address.method} {address.path}",
)
def test_every_answer_is_as_described(server: Served, description: Any, address: Address) -> None:
    operation = description[address.path][address.method]
    known = {"handler": "echo", "id": "known", "delay": "1h"}
    server.post("/v1/tasks:batch", {"tasks": [known], "on_conflict": "replace"})
    right = operation.as_strategy()
    wrong = operation.as_strategy(generation_mode=GenerationMode.NEGATIVE)
    takes_something = operation.body or operation.query or operation.path_parameters

    @settings(
        max_examples=EXAMPLES if takes_something else 2,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=st.one_of(right, wrong, right.map(likely)).map(at_once) if takes_something else right)
    def check(case: Any) -> None:
        seen.add(case.call_and_validate(base_url=server.url.rstrip("/"), checks=CHECKS).status_code)

    seen: set[int] = set()
    check()
    assert seen & set(address.answers) or any(part in address.path for part in ALONE), f"nothing went well: {seen}"
    assert server.process.poll() is None


def test_every_address_is_described() -> None:
    described = {(address.method.upper(), address.path.partition("{")[0]) for address in ADDRESSES}
    for topic in TOPICS:
        for handler in topic.handlers:
            for path in handler.paths:
                if path.startswith("/v1"):
                    begin = path.partition("{")[0]
                    assert any((method, begin) in described for method in handler.http_methods), path
