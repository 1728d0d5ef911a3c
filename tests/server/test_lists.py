"""Lists: filters, three orders, pages that stay good while others write, and totals."""

import threading
from typing import Any

import pytest

from tests.server.served import Served


@pytest.fixture(scope="module")
def shop(server: Served) -> Served:
    tasks = [
        {"handler": "echo", "id": "order-1", "at": "2090-01-04T00:00:00Z", "tags": ["vip"]},
        {"handler": "echo", "id": "order-2", "at": "2090-01-01T00:00:00Z", "tags": ["vip", "gift"]},
        {"handler": "slow", "id": "mail-1", "at": "2090-01-03T00:00:00Z", "tags": ["Gift"]},
        {"handler": "slow", "id": "mail-2", "at": "2090-01-02T00:00:00Z"},
    ]
    assert server.post("/v1/tasks:batch", {"tasks": tasks})["added"] == 4
    server.post("/v1/tasks/mail-2:pause")
    return server


def listed(server: Served, **query: Any) -> list[str]:
    found: list[str] = []
    cursor = None
    while True:
        page = server.get("/v1/tasks", params={**query, **({"cursor": cursor} if cursor else {})})
        found += [task["id"] for task in page["tasks"]]
        cursor = page["cursor"]
        if cursor is None:
            return found


def test_filters_narrow_the_list(shop: Served) -> None:
    assert listed(shop) == ["mail-2", "mail-1", "order-2", "order-1"]
    assert listed(shop, status="paused") == ["mail-2"]
    assert listed(shop, name="echo") == ["order-2", "order-1"]
    assert listed(shop, tag="vip", limit=1) == ["order-2", "order-1"]
    assert listed(shop, text="ift") == ["mail-1", "order-2"]
    assert listed(shop, id_prefix="mail") == ["mail-2", "mail-1"]
    assert listed(shop, due_after="2090-01-01T00:00:00Z", due_before="2090-01-04T00:00:00Z") == ["mail-2", "mail-1"]
    assert listed(shop, status="", tag="") == ["mail-2", "mail-1", "order-2", "order-1"]


def test_there_are_three_orders(shop: Served) -> None:
    assert listed(shop, order="oldest", limit=3) == ["order-1", "order-2", "mail-1", "mail-2"]
    assert listed(shop, order="due", limit=2) == ["order-2", "mail-1", "order-1"]


def test_a_page_has_a_total_and_only_what_lists_have(shop: Served) -> None:
    page = shop.get("/v1/tasks?limit=1&tag=vip")
    assert (len(page["tasks"]), page["total"], page["total_is_exact"]) == (1, 2, True)
    assert "next_runs" not in page["tasks"][0]


@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=1001",
        "limit=x",
        "status=asleep",
        "order=size",
        "cursor=x",
        "cursor=%00",
        "due_after=yesterday",
        "colour=red",
        "order=due&status=failed",
        f"text={'x' * 256}",
    ],
)
def test_a_query_that_is_wrong_is_refused(shop: Served, query: str) -> None:
    answer = shop.client.get(f"/v1/tasks?{query}")
    assert answer.status_code == 422, answer.text
    assert answer.headers["content-type"] == "application/problem+json"


def test_pages_miss_nothing_and_repeat_nothing_while_others_write(server: Served) -> None:
    known = [{"handler": "echo", "id": f"page-{n}", "delay": "1h", "tags": ["page"]} for n in range(200)]
    assert server.post("/v1/tasks:batch", {"tasks": known})["added"] == 200
    ended = threading.Event()

    def write() -> None:
        number = 0
        while not ended.is_set():
            server.add(id=f"other-{number}", delay="1h", tags=["page"])
            server.post(f"/v1/tasks/page-{number % 200}:pause")
            number += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for order in ("newest", "oldest"):
            found = listed(server, tag="page", order=order, limit=17)
            assert len(found) == len(set(found))
            assert {task["id"] for task in known} <= set(found)
    finally:
        ended.set()
        writer.join()
