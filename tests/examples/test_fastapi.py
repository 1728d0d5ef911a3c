"""The shop of FastAPI, served by uvicorn as the README says."""

import time
from collections.abc import Iterator

import httpx
import pytest

from tests.examples.commands import PATIENCE_S, started
from tickwheel.testing.postgres import free_port


@pytest.fixture
def shop() -> Iterator[httpx.Client]:
    port = free_port()
    with (
        started("uvicorn", "fastapi_shop:app", "--app-dir", "examples", "--port", str(port)) as server,
        httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE_S) as client,
    ):
        try:
            end = time.monotonic() + PATIENCE_S
            while True:
                try:
                    client.get("/tasks/readyz").raise_for_status()
                    break
                except httpx.HTTPError:
                    assert server.poll() is None
                    assert time.monotonic() < end
                    time.sleep(0.05)
            yield client
        finally:
            server.terminate()
            assert server.wait(PATIENCE_S) is not None


def test_an_order_has_a_task_until_it_is_paid(shop: httpx.Client) -> None:
    assert shop.post("/orders/7").json() == {"task": "order-7", "status": "pending"}
    assert shop.post("/orders/7").json() == {"task": "order-7", "status": "pending"}, "asked twice, there is one"
    assert shop.get("/tasks/v1/tasks").json()["total"] == 1
    assert shop.post("/orders/7/payment").json() == {"task": "order-7", "status": "cancelled"}
    assert shop.post("/orders/7/payment").status_code == 409
    assert "<title>" in shop.get("/tasks/", follow_redirects=True).text, "the dashboard is there too"
