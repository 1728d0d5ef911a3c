"""What the docs show is what happens: every example in docstrings and pages is run."""

import ast
import doctest
import importlib
import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parent.parent
SOURCES = sorted((REPOSITORY / "src").rglob("*.py"))
PAGES = [
    *(REPOSITORY / "README.md", REPOSITORY / "examples" / "README.md"),
    *sorted((REPOSITORY / "docs").glob("*.md")),
]
FLAGS = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL | doctest.NORMALIZE_WHITESPACE


def name_of(path: Path) -> str:
    return str(path.relative_to(REPOSITORY))


@pytest.mark.parametrize("path", [path for path in SOURCES if ">>>" in path.read_text()], ids=name_of)
def test_examples_in_docstrings_are_true(path: Path) -> None:
    name = ".".join(path.relative_to(REPOSITORY / "src").with_suffix("").parts)
    docstring = ast.get_docstring(ast.parse(path.read_text())) or ""  # native modules carry none
    names = dict(vars(importlib.import_module(name)))
    parsed = doctest.DocTestParser().get_doctest(docstring, names, name, str(path), 0)
    assert parsed.examples, "an example stands somewhere else than in the module's docstring"
    assert doctest.DocTestRunner(optionflags=FLAGS).run(parsed).failed == 0


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_examples_in_pages_are_true(path: Path) -> None:
    assert doctest.testfile(str(path), module_relative=False, optionflags=FLAGS).failed == 0


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_links_between_pages_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", path.read_text()):
        if "://" not in target:
            assert (path.parent / target).exists(), target
