"""The dashboard is for everyone: by keyboard, by ear, and by eyes that need contrast."""

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.dashboard.conftest import Open, keep
from tests.dashboard.service import Service

AUDIT = Path(__file__).with_name("audit.js").read_text()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_nothing_shuts_people_out(open_at: Open, service: Service, audited: str, dark: bool) -> None:
    page = open_at("", dark=dark)
    expect(page.get_by_text("live", exact=True)).to_be_visible()
    wrong = {}
    for place in ("wheels", "tasks", f"task/{audited}", "new", "charts", "cluster"):
        page.goto(f"{service.url}#/{place}")
        page.wait_for_selector(f"main.view-{place.partition('/')[0]} h1", state="attached")
        page.wait_for_function("() => document.querySelector('main').textContent.length > 80")
        page.evaluate("() => document.querySelectorAll('main details').forEach((one) => { one.open = true; })")
        if place == "new":
            page.get_by_label("Cron", exact=True).check()
        keep(page, f"{'dark' if dark else 'light'}-{place.replace('/', '-')}")
        wrong[place] = page.evaluate(AUDIT)
    assert {place: found for place, found in wrong.items() if found} == {}


@pytest.fixture
def audited(service: Service) -> str:
    """A task with everything a task can have."""
    if service.client.get("/v1/tasks/audited").status_code == 404:
        service.add(
            "orders.refuse", id="audited", delay="10ms", retries=0, tags=["seen"], args={"a": 1}, meta={"b": "c"}
        )
        service.await_status("audited", "failed")
    return "audited"


def test_slash_searches_and_question_mark_helps(open_at: Open) -> None:
    page = open_at("cluster")
    _ready(page)
    page.keyboard.press("/")
    search = page.get_by_label("Search")
    expect(search).to_be_focused()
    page.keyboard.type("/?1")  # is written, and does nothing else
    expect(search).to_have_value("/?1")
    page.keyboard.press("Escape")
    expect(search).not_to_be_focused()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    assert page.evaluate(AUDIT) == []
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).not_to_be_attached()


def test_numbers_lead_to_places(open_at: Open) -> None:
    page = open_at("wheels")
    _ready(page)
    for key, heading in (("2", "Tasks"), ("3", "New task"), ("4", "Charts"), ("5", "Cluster"), ("n", "New task")):
        page.keyboard.press(key)
        expect(page.get_by_role("heading", level=1)).to_have_text(heading)
        expect(page.get_by_role("main")).to_be_focused()
        expect(page.locator("nav [aria-current=page]")).to_have_text(heading)


def test_arrows_walk_through_tasks_and_enter_opens(open_at: Open, service: Service) -> None:
    for number in range(3):
        service.add(id=f"walk-{number}", delay=f"{number + 1}h")
    page = open_at("tasks?id_prefix=walk-&order=due")
    page.get_by_role("link", name="walk-0").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("link", name="walk-2")).to_be_focused()
    page.keyboard.press("ArrowUp")
    expect(page.get_by_role("link", name="walk-1")).to_be_focused()
    assert page.evaluate("() => getComputedStyle(document.activeElement).outlineStyle") == "solid"
    service.add(id="walk-9", delay="9h")  # the list is drawn anew
    expect(page.get_by_role("link", name="walk-9")).to_be_visible()
    expect(page.get_by_role("link", name="walk-1")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("walk-1")


def test_content_can_be_skipped_to(open_at: Open) -> None:
    page = open_at("tasks")
    _ready(page)
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("main")).to_be_focused()


def _ready(page: Page) -> None:
    expect(page.locator("h1")).to_be_attached()
