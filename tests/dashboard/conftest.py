"""A browser, a server, and pages that must not complain."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect, sync_playwright

from tests.dashboard.service import Service, serving

CHROMIUM = Path("/usr/bin/chromium")
SCREENSHOTS = Path(__file__).parent.parent.parent / "build" / "screenshots"

PATIENCE_MS = 20_000  # on a busy machine; nothing waits this long unless it is broken

Open = Callable[..., Page]


def keep(page: Page, name: str) -> None:
    """Keep what is seen, to be looked at."""
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SCREENSHOTS / f"{name}.png")


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    assert CHROMIUM.exists(), "chromium is not on this machine: `make browser` installs it where it may"
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with serving(tmp_path_factory.mktemp("dashboard")) as service:
        yield service


@pytest.fixture
def open_at(browser: Browser, service: Service, request: pytest.FixtureRequest) -> Iterator[Open]:
    """Open the dashboard at a place; whatever the console complains of fails the test. What was seen last is kept."""
    contexts: list[BrowserContext] = []
    complaints: list[str] = []

    def open_page(
        place: str = "",
        *,
        url: str = service.url,
        width: int = 1280,
        locale: str = "en-GB",
        dark: bool = False,
        forgiven: str | None = None,
    ) -> Page:
        def hear(message: ConsoleMessage) -> None:
            if message.type in ("error", "warning") and not (forgiven and forgiven in message.text):
                complaints.append(message.text)

        context = browser.new_context(
            viewport={"width": width, "height": 860}, locale=locale, color_scheme="dark" if dark else "light"
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.on("console", hear)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(f"{url}#/{place}")
        return page

    yield open_page
    for number, context in enumerate(contexts):
        for page in context.pages:
            keep(page, f"{request.node.name}-{number}")
        context.close()
    assert complaints == []
