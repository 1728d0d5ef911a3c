"""Whatever a task holds is shown as text, and is never run."""

from typing import Any
from urllib.parse import quote

from playwright.sync_api import Page, expect

from tests.dashboard.conftest import Open
from tests.dashboard.service import Service

EVIL = "<img src=x onerror=\"document.title='taken'\"><script>document.title='taken'</script>"
BREAKING = "\"><svg onload=\"document.title='taken'\">'"
LINK = "javascript:document.title='taken'"


def test_script_in_every_field_is_text(open_at: Open, service: Service) -> None:
    evil_id = "evil<img src=x onerror=document.title=1>"
    fields: dict[str, Any] = {"tags": ["<b>bold</b>"], "args": {EVIL: BREAKING, "link": LINK}, "meta": {EVIL: BREAKING}}
    service.add(
        "orders.refuse", id=evil_id, delay="10ms", retries=0, **{**fields, "args": {"why": EVIL, BREAKING: LINK}}
    )
    waiting = service.add(id=BREAKING, delay="30m", **fields)
    named = service.add("<i>evil</i>", id="evil-name", delay="31m", **fields)
    cancelled = service.add(id="evil-reason", delay="1h")
    service.post(f"/v1/tasks/{cancelled}:cancel", {"reason": EVIL})
    service.await_status(quote(evil_id, safe=""), "failed")

    page = open_at("tasks?tag=<b>bold</b>")
    expect(page.get_by_role("link", name=evil_id)).to_be_visible()
    expect(page.get_by_text("<b>bold</b>").first).to_be_visible()
    _is_clean(page)
    page.get_by_role("button", name="All that match").click()
    expect(page.get_by_role("dialog")).to_contain_text("<b>bold</b>")
    _is_clean(page)
    page.keyboard.press("Escape")

    page.get_by_role("link", name=evil_id).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(evil_id)
    expect(page.get_by_role("group", name="Error").first).to_contain_text("onerror=")
    expect(page.get_by_role("group", name="Arguments")).to_contain_text(LINK)
    _is_clean(page)
    for task_id, words in ((waiting, BREAKING), (named, "<i>evil</i>"), (cancelled, EVIL)):
        page.goto(f"{service.url}#/task/{quote(task_id, safe='')}")
        expect(page.get_by_role("heading", level=1)).to_have_text(task_id)
        expect(page.get_by_role("main")).to_contain_text(words)
        _is_clean(page)


def test_script_in_events_and_slots_is_text(open_at: Open, service: Service) -> None:
    page = open_at("wheels")
    expect(page.get_by_text("live", exact=True)).to_be_visible()
    name = service.add(id="live<img src=x onerror=document.title=1>", delay="20m")
    expect(page.locator(".recent").get_by_role("link", name=name).first).to_be_visible()
    _is_clean(page)


def test_script_in_the_address_is_text(open_at: Open) -> None:
    page = open_at(f"task/{quote(EVIL, safe='')}", forgiven="status of 404")
    expect(page.get_by_role("main")).to_contain_text("There is no task <img")
    _is_clean(page)
    page = open_at(f"tasks?text={quote(EVIL, safe='')}")
    expect(page.get_by_label("Search")).to_have_value(EVIL)
    _is_clean(page)


def _is_clean(page: Page) -> None:
    """Nothing a task brought has become part of the page."""
    assert "taken" not in page.title().split(" · ")[-1]
    assert page.locator("main img, main b, main i, main script, main svg[onload], main [onerror]").count() == 0
    assert page.locator("[href^=javascript]").count() == 0
    assert page.title().endswith("tickwheel")
