"""The page lives with its server: it rests while nobody looks, and comes back when the server does."""

from pathlib import Path

from playwright.sync_api import Page, Request, expect

from tests.dashboard.conftest import Open
from tests.dashboard.service import free_port, serving
from tests.examples.commands import serving_fastapi

HIDE = """(hidden) => {
  Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
  document.dispatchEvent(new Event("visibilitychange"));
}"""


def test_page_outlives_its_server(open_at: Open, tmp_path: Path) -> None:
    port = free_port()
    with serving(tmp_path, port=port) as before:
        page = open_at("tasks", url=before.url, forgiven="Failed to load resource")
        _is(page, "live")
    _is(page, "connecting")
    with serving(tmp_path, port=port) as after:
        after.add(id="added-afterwards")
        expect(page.get_by_role("link", name="added-afterwards")).to_be_visible()
        _is(page, "live")
        page.goto("about:blank")


def test_hidden_page_asks_for_nothing(open_at: Open) -> None:
    page = open_at("wheels")
    _is(page, "live")
    page.evaluate(HIDE, arg=True)
    _is(page, "paused")
    page.wait_for_timeout(300)  # what was asked for before is answered
    asked: list[str] = []

    def note(request: Request) -> None:
        asked.append(request.url)

    page.on("request", note)
    page.wait_for_timeout(1_500)  # more than a look at the wheels takes
    assert asked == []
    page.evaluate(HIDE, arg=False)
    _is(page, "live")
    assert any(url.endswith("/v1/wheels") for url in asked)


def test_page_works_where_it_is_mounted(open_at: Open) -> None:
    with serving_fastapi() as shop:
        page = open_at("tasks", url=f"{shop.base_url}/tasks")  # without its slash, as people type it
        _is(page, "live")
        shop.post("/orders/7")
        page.get_by_role("link", name="order-7").click()
        page.get_by_role("button", name="Run now").click()
        expect(page.get_by_text("order 7 is cancelled")).to_be_visible()
        page.goto("about:blank")


def _is(page: Page, state: str) -> None:
    expect(page.get_by_role("banner").get_by_role("status")).to_have_text(state)
