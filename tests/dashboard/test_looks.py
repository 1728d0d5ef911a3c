"""The dashboard is light to load, fits a phone, and is as its reader wants it: dark or light, English or Chinese."""

from playwright.sync_api import Page, expect

from tests.dashboard.conftest import Open, keep
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


def test_phone_needs_no_scrolling_sideways(open_at: Open, service: Service) -> None:
    long = service.add("orders.refuse", id="long-" + "x" * 80, delay="10ms", retries=0, tags=["a-tag-of-some-length"])
    service.await_status(long, "failed")
    page = open_at("", width=390)
    widths = {}
    for place in (*PLACES, f"task/{long}"):
        _visit(page, service, place)
        keep(page, f"phone-{place.partition('/')[0]}")
        widths[place] = page.evaluate("() => document.documentElement.scrollWidth")
    assert {place: width for place, width in widths.items() if width > 390} == {}


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


def test_chinese_follows_the_browser(open_at: Open, service: Service) -> None:
    page = open_at("", locale="zh-CN")
    expect(page.get_by_role("navigation", name="导航")).to_contain_text("时间轮")
    for place in PLACES:
        _visit(page, service, place)
        keep(page, f"chinese-{place}")
        expect(page.get_by_role("main")).not_to_contain_text("undefined")


def _visit(page: Page, service: Service, place: str) -> None:
    page.goto(f"{service.url}#/{place}")
    page.wait_for_selector(f"main.view-{place.partition('/')[0]} h1", state="attached")
    page.wait_for_function("() => document.querySelector('main').textContent.length > 40")


def _brightness(page: Page) -> float:
    expect(page.locator("h1")).to_be_attached()
    colour = page.evaluate(GROUND)
    return sum(float(part) for part in colour.removeprefix("rgb(").removesuffix(")").split(",")) / 3
