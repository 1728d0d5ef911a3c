"""The shop of FastAPI, served by uvicorn as the README says."""

from collections.abc import Iterator

import httpx
import pytest

from tests.examples.commands import serving_fastapi


@pytest.fixture
def shop() -> Iterator[httpx.Client]:
    with serving_fastapi() as client:
        yield client


def test_an_order_has_a_task_until_it_is_paid(shop: httpx.Client) -> None:
    assert shop.post("/orders/7").json() == {"task": "order-7", "status": "pending"}
    assert shop.post("/orders/7").json() == {"task": "order-7", "status": "pending"}, "asked twice, there is one"
    assert shop.get("/tasks/v1/tasks").json()["total"] == 1
    assert shop.post("/orders/7/payment").json() == {"task": "order-7", "status": "cancelled"}
    assert shop.post("/orders/7/payment").status_code == 409
    assert "<title>" in shop.get("/tasks/", follow_redirects=True).text, "the dashboard is there too"
