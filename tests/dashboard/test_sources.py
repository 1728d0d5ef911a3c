"""What holds for the dashboard's files, seen without a browser."""

import re
from pathlib import Path

import pytest

import tickwheel

FOLDER = Path(tickwheel.__file__).parent / "server" / "dashboard"
MODULES = sorted(FOLDER.rglob("*.js"))
STYLES = sorted(FOLDER.rglob("*.css"))
KEY = re.compile(r'^  "([^"]+)":', re.MULTILINE)
LINES_MAX = 320
COLUMNS_MAX = 120


def name_of(path: Path) -> str:
    return str(path.relative_to(FOLDER))


def keys(language: str) -> list[str]:
    return KEY.findall((FOLDER / "texts" / f"{language}.js").read_text())


def test_every_text_is_there_once_in_each_language() -> None:
    assert len(set(keys("en"))) == len(keys("en"))
    assert sorted(keys("en")) == sorted(keys("zh"))


def test_every_text_that_is_asked_for_is_there() -> None:
    asked = {key for module in MODULES for key in re.findall(r'\bt\("([^"]+)"', module.read_text())}
    assert len(asked) > 100
    assert asked <= set(keys("en"))


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_module_says_what_it_is_and_parses_no_html(path: Path) -> None:
    text = path.read_text()
    assert text.startswith("// ")
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|srcdoc", text)
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)\w", text)
    assert len(text.splitlines()) <= LINES_MAX
    assert max(map(len, text.splitlines())) <= COLUMNS_MAX


@pytest.mark.parametrize("path", STYLES, ids=name_of)
def test_style_brings_nothing_from_elsewhere(path: Path) -> None:
    assert not re.search(r"@import|url\(", path.read_text())


def test_page_has_no_script_or_style_of_its_own() -> None:
    page = (FOLDER / "index.html").read_text()
    assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)", page)
    assert not re.search(r'(?:src|href)="(?!dashboard/)', page)
