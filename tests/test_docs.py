"""What the docs show is what happens: every example in docstrings and pages is run, as a reader would paste it.

An indented block of a page is one of these:

- a session with `>>>`, which is run by doctest;
- commands of a shell: those of tickwheel, make, python and pip are looked up, with their options;
- a Python program. All programs of a page are run one after the other, in an empty folder, and then once more, as by a
  reader who comes back. `<!-- file: shop.py -->` before a block saves it under that name. `<!-- fragment: why -->` says
  that it is part of a program of the reader: it has to parse, and what it imports has to exist;
- anything else: drawings, output, SQL, and files of other programs.

Blocks on PostgreSQL, Redis and etcd open no connection until they are used: they are run, and no server is needed.
"""

import ast
import doctest
import importlib
import importlib.util
import re
import shlex
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from typer.main import get_command

from tickwheel.cli import app

REPOSITORY = Path(__file__).parent.parent
SOURCES = sorted((REPOSITORY / "src").rglob("*.py"))
PAGES = [
    *(
        REPOSITORY / "README.md",
        REPOSITORY / "examples" / "README.md",
        REPOSITORY / "examples" / "approval" / "README.md",
    ),
    *sorted((REPOSITORY / "docs").glob("*.md")),
]
FLAGS = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL | doctest.NORMALIZE_WHITESPACE
EXTRAS = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["optional-dependencies"]
TARGETS = re.findall(r"(?m)^([a-z][a-z-]*):", (REPOSITORY / "Makefile").read_text())

BLOCK = re.compile(r"(?m)(?:^<!-- (file|fragment): (.+) -->\n\n)?((?:^(?: {4}.*)?\n)+)")
COMMAND = re.compile(r"(?:\$ |(?:[A-Z_]+=\S+ )?(?:curl|etcd|etcdctl|make|pip|python|redis-cli|tickwheel|uvicorn) )")
PROGRAM_NODES = (ast.Import, ast.ImportFrom, ast.Call, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Await)
OTHERS = {"curl", "etcd", "etcdctl", "redis-cli", "sqlite3", "uvicorn"}  # programs that are not ours

# Runs a file as `python -m asyncio` would: with await outside of functions.
RUNNER = """
import ast, asyncio, inspect, sys
names = {"__name__": "__main__"}
for path in sys.argv[1:]:
    code = compile(open(path).read(), path, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    if code.co_flags & inspect.CO_COROUTINE:
        asyncio.run(eval(code, names))
    else:
        exec(code, names)
"""


@dataclass(frozen=True)
class Block:
    """An indented block of a page, without its indentation."""

    text: str
    mark: str = ""
    told: str = ""

    @property
    def commands(self) -> list[str]:
        """The commands in it, each on one line."""
        if ">>>" in self.text:
            return []
        lines = self.text.replace("\\\n", " ").splitlines()
        return [line.removeprefix("$ ") for line in lines if COMMAND.match(line)]

    @property
    def program(self) -> str:
        """The Python program in it; empty if there is none."""
        lines = [] if ">>>" in self.text else [line for line in self.text.splitlines() if not COMMAND.match(line)]
        source = "\n".join(lines)
        tree = parse(source)
        return source if tree and any(isinstance(node, PROGRAM_NODES) for node in ast.walk(tree)) else ""


def parse(source: str) -> ast.AST | None:
    try:
        compile(source, "a page", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    except SyntaxError:
        return None
    return ast.parse(source)


def blocks(path: Path) -> list[Block]:
    found = BLOCK.findall(f"\n{path.read_text()}")
    return [Block(dedent(text).strip("\n"), mark, told) for mark, told, text in found if text.strip()]


def name_of(path: Path) -> str:
    return str(path.relative_to(REPOSITORY))


def with_programs() -> list[Path]:
    return [path for path in PAGES if any(block.program for block in blocks(path))]


def shown_commands() -> list[tuple[str, str]]:
    return [(name_of(path), command) for path in PAGES for block in blocks(path) for command in block.commands]


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


@pytest.mark.parametrize("path", with_programs(), ids=name_of)
def test_programs_in_pages_run_and_run_again(path: Path, tmp_path: Path) -> None:
    shown = blocks(path)
    files = []
    for number, block in enumerate(block for block in shown if block.program and block.mark != "fragment"):
        name = block.told if block.mark == "file" else f"block_{number}.py"
        (tmp_path / name).write_text(block.program)
        files.append(name)
    for time in ("first", "second"):
        command = [sys.executable, "-c", RUNNER, *files]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, f"{time} run: {done.stderr}"


@pytest.mark.parametrize("path", with_programs(), ids=name_of)
def test_what_fragments_import_exists(path: Path) -> None:
    for block in blocks(path):
        if block.mark == "fragment":
            assert block.program, f"this does not parse:\n{block.text}"
            imports = [node for node in ast.walk(ast.parse(block.program)) if isinstance(node, ast.ImportFrom)]
            for node in imports:
                module = importlib.import_module(node.module or "")
                assert [alias.name for alias in node.names if not hasattr(module, alias.name)] == []


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_what_looks_like_a_program_is_one(path: Path) -> None:
    for block in blocks(path):
        if ">>>" not in block.text and re.search(
            r"(?m)^ *(from \w[\w.]* import|import \w|await |@\w+\.\w+\()", block.text
        ):
            assert block.program, f"this does not parse:\n{block.text}"
        assert not block.mark or block.program, f"this mark says nothing: {block.mark}: {block.told}"


@pytest.mark.parametrize(("page", "typed"), shown_commands(), ids=lambda text: text)
def test_commands_in_pages_exist(page: str, typed: str) -> None:
    if typed.split(maxsplit=1)[0] in OTHERS:
        return
    words = [word for word in shlex.split(typed, comments=True) if not re.match(r"[A-Z_]+=", word)]
    match words:
        case ["tickwheel", *rest]:
            check_tickwheel(rest)
        case ["make", *targets]:
            assert [target for target in targets if target not in TARGETS] == []
        case ["python", "-m", module, *_]:
            assert importlib.util.find_spec(module)
        case ["python", script, *_]:
            assert (REPOSITORY / script).exists()
        case ["pip", "install", what, *_]:
            extras = re.fullmatch(r"tickwheel\[(.+)\]", what)
            assert extras, f"{page}: what is installed here?"
            assert set(extras[1].split(",")) <= set(EXTRAS)
        case _:
            pytest.fail(f"{page}: what is {words[0]}?")


def check_tickwheel(words: list[str]) -> None:
    """Look up a command and its options as the command line would."""
    command: Any = get_command(app)
    while words and words[0] in getattr(command, "commands", {}):
        command, words = command.commands[words[0]], words[1:]
    assert not hasattr(command, "commands"), f"no such command: {words}"
    options = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    used = [word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)]
    assert [option for option in used if option not in options] == []


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_links_between_pages_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", path.read_text()):
        if "://" not in target:
            assert (path.parent / target).exists(), target


def test_files_that_are_named_in_the_architecture_exist() -> None:
    named = set(re.findall(r"`([a-z_/]+\.py)`", (REPOSITORY / "docs" / "architecture.md").read_text()))
    there = {f"/{path.relative_to(REPOSITORY).as_posix()}" for path in [REPOSITORY / "setup.py", *SOURCES]}
    assert len(named) > 20
    assert {name for name in named if not any(path.endswith(f"/{name}") for path in there)} == set()


def test_the_readme_begins_with_two_commands() -> None:
    first = blocks(REPOSITORY / "README.md")[0]
    assert [command.split()[:2] for command in first.commands] == [["make", "run"], ["make", "test"]]
