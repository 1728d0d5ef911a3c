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
    @given(case=st.one_of(right, wrong) if takes_something else right)
    def check(case: Any) -> None:
        case.call_and_validate(base_url=server.url.rstrip("/"), checks=CHECKS)

    check()
    assert server.process.poll() is None


def test_every_address_is_described() -> None:
    described = {(address.method.upper(), address.path.partition("{")[0]) for address in ADDRESSES}
    for topic in TOPICS:
        for handler in topic.handlers:
            for path in handler.paths:
                if path.startswith("/v1"):
                    begin = path.partition("{")[0]
                    assert any((method, begin) in described for method in handler.http_methods), path
