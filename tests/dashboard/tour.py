"""Takes the pictures of docs/dashboard.md: `python -m tests.dashboard.tour`."""

import tempfile
from io import BytesIO
from pathlib import Path
from random import Random

from PIL import Image
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.dashboard.conftest import CHROMIUM
from tests.dashboard.service import Service, serving

REPOSITORY = Path(__file__).parent.parent.parent
IMAGES = REPOSITORY / "docs" / "images"
COLOURS = 200  # are enough for a calm page
SHORTEN = """(prefix) => document.querySelectorAll("pre").forEach((one) => {
  one.textContent = one.textContent.replaceAll(prefix, "");
})"""
TASKS = 4_000
BATCH = 1_000


def main() -> None:
    """Fill a shop, look around in it, and keep what is seen."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder)) as service, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        fill(service)
        take_all(browser, service)
        browser.close()


def fill(service: Service) -> None:
    """Add what a shop has waiting: much of it soon, some late, some that fails."""
    chance = Random(7)
    tasks = [
        {
            "handler": "orders.cancel",
            "id": f"order-{1000 + number}",
            "args": {"order_id": 1000 + number, "customer": f"c-{number % 97}"},
            "delay": f"{chance.expovariate(1 / 250):.3f}s" if number % 5 else f"{chance.uniform(1, 90):.2f}d",
            "tags": [("vip", "eu", "us", "gift")[number % 4]],
        }
        for number in range(TASKS)
    ]
    for begin in range(0, TASKS, BATCH):
        service.post("/v1/tasks:batch", {"tasks": tasks[begin : begin + BATCH]})
    service.add("reports.daily", id="report-berlin", cron="0 9 * * 1-5", tz="Europe/Berlin", tags=["report"])
    service.add("orders.refuse", id="order-7", delay="50ms", retries=1, args={"order_id": 7}, tags=["vip"])
    service.add("orders.count", id="stock-count", delay="1s", args={"seconds": 300})


def take_all(browser: Browser, service: Service) -> None:
    """Take every picture."""
    page = browser.new_page(viewport={"width": 1280, "height": 800}, locale="en-GB", timezone_id="Europe/Berlin")
    page.goto(f"{service.url}#/wheels")
    expect(page.get_by_text("live", exact=True)).to_be_visible()
    page.wait_for_timeout(20_000)  # so that something has happened
    take(page, "wheels")
    page.get_by_label("Theme").select_option("dark")
    take(page, "wheels-dark")
    page.get_by_label("Theme").select_option("system")
    page.goto(f"{service.url}#/tasks?tag=vip&status=pending&order=due&limit=25")
    expect(page.locator("tbody tr")).to_have_count(25)
    take(page, "tasks")
    page.get_by_role("button", name="All that match").click()
    expect(page.get_by_role("dialog")).to_be_visible()
    take(page, "bulk")
    page.keyboard.press("Escape")
    page.goto(f"{service.url}#/task/order-7")
    expect(page.get_by_role("group", name="Error").first).to_be_visible()
    take(page, "task")
    page.goto(f"{service.url}#/new")
    page.get_by_label("Handler", exact=True).last.fill("reports.daily")
    page.get_by_label("Cron", exact=True).check()
    page.get_by_label("Cron expression").fill("0 9 * * 1-5")
    expect(page.get_by_role("status", name="Next runs").get_by_role("listitem")).to_have_count(5)
    take(page, "new")
    page.goto(f"{service.url}#/charts")
    expect(page.locator(".chart .bar").first).to_be_attached()
    page.wait_for_timeout(10_000)
    take(page, "charts")
    page.goto(f"{service.url}#/cluster")
    expect(page.locator(".partitions li").first).to_be_visible()
    take(page, "cluster")
    page.set_viewport_size({"width": 390, "height": 800})
    page.goto(f"{service.url}#/tasks?tag=vip&order=due&limit=25")
    expect(page.locator("tbody tr")).to_have_count(25)
    page.get_by_label("Language").select_option("zh")
    take(page, "phone")


def take(page: Page, name: str) -> None:
    """Keep what is seen, in as few bytes as do, and without where the repository happens to be."""
    page.wait_for_timeout(800)
    page.evaluate(SHORTEN, f"{REPOSITORY}/")
    seen = Image.open(BytesIO(page.screenshot()))
    seen.convert("RGB").quantize(COLOURS, Image.Quantize.MAXCOVERAGE).save(IMAGES / f"{name}.png", optimize=True)


if __name__ == "__main__":
    main()
