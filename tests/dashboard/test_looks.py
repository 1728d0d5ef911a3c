"""The dashboard is light to load, fits a phone, and is as its reader wants it: dark or light, English or Chinese."""

import pytest
from playwright.sync_api import Page, expect

from tests.dashboard.conftest import Open
from tests.dashboard.service import Service

FIRST_PAINT_BYTES_MAX = 200_000
PLACES = ["wheels", "tasks", "new", "charts", "cluster"]

GROUND = "() => getComputedStyle(document.body).backgroundColor"


def test_first_paint_is_small_and_all_ours(open_at: Open, service: Service) -> None:
    page = open_at("wheels")
    expect(page.locator("[data-hand='0']")).to_be_attached()
    loaded = page.evaluate(
        "() => performance.getEntries().filter((entry) => entry.transferSize !== undefined)"
        ".map((entry) => [entry.name, entry.transferSize])"
    )
    assert len(loaded) > 20
    assert all(address.startswith(service.url) for address, _ in loaded)
    assert sum(size for _, size in loaded) < FIRST_PAINT_BYTES_MAX


@pytest.mark.parametrize("place", PLACES)
def test_phone_needs_no_scrolling_sideways(open_at: Open, service: Service, place: str) -> None:
    long = "long-" + "x" * 80
    if service.client.get(f"/v1/tasks/{long}").status_code == 404:
        service.add(id=long, tags=["a-tag-of-some-length"])
    page = open_at(place, width=390)
    _settle(page)
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 390
    if place == "tasks":
        page.get_by_role("link", name=long).click()
        _settle(page)
        assert page.evaluate("() => document.documentElement.scrollWidth") <= 390


def test_dark_follows_the_system(open_at: Open) -> None:
    assert _brightness(open_at("tasks", dark=True)) < 60
    assert _brightness(open_at("tasks")) > 200


def test_theme_that_is_chosen_is_kept(open_at: Open) -> None:
    page = open_at("wheels")
    page.get_by_label("Theme").select_option("dark")
    assert _brightness(page) < 60
    page.reload()
    expect(page.get_by_label("Theme")).to_have_value("dark")
    assert _brightness(page) < 60
    page.get_by_label("Theme").select_option("system")
    assert _brightness(page) > 200


def test_language_that_is_chosen_is_kept(open_at: Open) -> None:
    page = open_at("tasks")
    page.get_by_label("Language").select_option("zh")
    expect(page.get_by_role("heading", name="任务列表")).to_be_visible()
    expect(page.locator("html")).to_have_attribute("lang", "zh-CN")
    page.reload()
    expect(page.get_by_role("heading", name="任务列表")).to_be_visible()
    page.get_by_label("语言").select_option("en")
    expect(page.get_by_role("heading", name="Tasks")).to_be_visible()


@pytest.mark.parametrize("place", PLACES)
def test_everything_is_said_in_chinese(open_at: Open, place: str) -> None:
    page = open_at(place, locale="zh-CN")
    _settle(page)
    expect(page.get_by_role("navigation", name="导航")).to_contain_text("时间轮")
    expect(page.get_by_role("main")).not_to_contain_text("undefined")


def _settle(page: Page) -> None:
    expect(page.locator("h1")).to_be_attached()
    page.wait_for_load_state("load")
    page.wait_for_function("() => document.querySelector('main').textContent.length > 40")


def _brightness(page: Page) -> float:
    expect(page.locator("h1")).to_be_attached()
    colour = page.evaluate(GROUND)
    return sum(float(part) for part in colour.removeprefix("rgb(").removesuffix(")").split(",")) / 3
