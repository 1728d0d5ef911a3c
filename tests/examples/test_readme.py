"""What examples/README.md shows is what happens: each command is run, and prints what is written there."""

import doctest
import re
import shlex
from textwrap import dedent

import pytest

from tests.examples.commands import EXAMPLES, run

README = (EXAMPLES / "README.md").read_text()
SHOWN = re.findall(r"(?m)^    \$ (python examples/.*)\n((?:    .*\n)*)", README)


@pytest.mark.parametrize(("typed", "printed"), SHOWN, ids=[typed for typed, _ in SHOWN])
def test_a_command_prints_what_is_shown(typed: str, printed: str) -> None:
    wanted, got = dedent(printed), dedent(run(*shlex.split(typed)))
    assert wanted, "it shows nothing"
    assert doctest.OutputChecker().check_output(wanted, got, doctest.ELLIPSIS), got
