"""A server that asks for a token is entered with one, and shows a reader no buttons that would be refused."""

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.dashboard.conftest import Open
from tests.dashboard.service import Service, serving

READER = "reader-of-the-tests-0001"
WRITER = "writer-of-the-tests-0002"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("guarded")
    with serving(folder, "--token-file", str(_token_file(folder)), token=WRITER) as service:
        yield service


def _token_file(folder: Path) -> Path:
    tokens = folder / "tokens"
    lines = (("reader", "read", READER), ("writer", "write", WRITER))
    tokens.write_text("".join(f"{name} {role} {sha256(token.encode()).hexdigest()}\n" for name, role, token in lines))
    tokens.chmod(0o600)
    return tokens


def test_token_lets_in_and_leaving_shuts_out(open_at: Open, guarded: Service) -> None:
    page = open_at("tasks", url=guarded.url, forgiven="status of 401")
    field = page.get_by_label("Token")
    field.fill("wrong")
    page.get_by_role("button", name="Enter").click()
    expect(page.get_by_role("alert")).to_have_text("The server does not know this token.")
    field.fill(WRITER)
    page.get_by_role("button", name="Enter").click()
    expect(page.get_by_role("heading", name="Tasks")).to_be_visible()
    expect(page.get_by_text("live", exact=True)).to_be_visible()
    assert page.evaluate("() => document.cookie + JSON.stringify({...localStorage})").find(WRITER) == -1
    page.reload()
    expect(page.get_by_role("heading", name="Tasks")).to_be_visible()
    page.get_by_role("button", name="Leave").click()
    expect(page.get_by_label("Token")).to_be_visible()
    page.reload()
    expect(page.get_by_label("Token")).to_be_visible()


def test_reader_sees_and_is_offered_nothing_to_change(open_at: Open, guarded: Service) -> None:
    guarded.add(id="for-readers")
    page = open_at("task/for-readers", url=guarded.url, forgiven="status of 401")
    page.get_by_label("Token").fill(READER)
    page.get_by_role("button", name="Enter").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("for-readers")
    expect(page.get_by_role("group", name="Actions")).not_to_be_attached()
    page.goto(f"{guarded.url}#/new")
    expect(page.get_by_role("main")).to_contain_text("Your token only reads.")
