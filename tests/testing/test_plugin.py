"""The plugin as its users meet it: a test file of theirs, run by pytest in a process of its own."""

import subprocess
import sys

import pytest

USERS_TESTS = """
import asyncio

import pytest

from tickwheel import ManualTimers, VirtualClock, aio


@pytest.mark.parametrize("time", ["first", "second", "third"])
def test_a_year_of_quarters_is_the_same_story_each_time(virtual_clock, time):
    story = []

    def tell(what):
        story.append((round(virtual_clock.monotonic_ns() / 86_400e9), what))

    async def every(days, what):
        while True:
            await asyncio.sleep(days * 86_400)
            tell(what)

    async def main():
        quarters = asyncio.create_task(every(91, "quarter"))
        try:
            async with asyncio.timeout(365 * 86_400):
                await quarters
        except TimeoutError:
            tell("year")

    aio.run(main(), clock=virtual_clock)
    assert story == [(91, "quarter"), (182, "quarter"), (273, "quarter"), (364, "quarter"), (365, "year")]


def test_timers_are_moved_by_hand(virtual_clock):
    ran = []
    timers = ManualTimers(virtual_clock)
    timers.after("365d", ran.append, "a year is over")
    timers.advance("364d")
    assert ran == []
    timers.advance("1d")
    assert ran == ["a year is over"]
    assert virtual_clock.monotonic_ns() == 365 * 86_400 * 10**9


@pytest.fixture
def start_ns(virtual_clock):
    return virtual_clock.monotonic_ns()


@pytest.mark.parametrize("time", ["first", "second"])
def test_a_clock_is_fresh_and_shared_with_the_fixtures_of_the_test(virtual_clock, start_ns, time):
    assert type(virtual_clock) is VirtualClock
    assert start_ns == 0
    assert VirtualClock().time_ns() == virtual_clock.time_ns()
    virtual_clock.advance("1h")
"""


@pytest.mark.slow
def test_a_users_tests_find_the_fixture(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(USERS_TESTS)
    done = pytester.runpytest_subprocess("-W", "error", timeout=60)
    done.assert_outcomes(passed=6)
    done.stdout.fnmatch_lines(["plugins: *tickwheel-*"])


@pytest.mark.slow
def test_it_is_the_entry_point_that_brings_the_fixture(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(USERS_TESTS)
    done = pytester.runpytest_subprocess("-W", "error", "-p", "no:tickwheel", timeout=60)
    done.assert_outcomes(errors=6)
    done.stdout.fnmatch_lines(["*fixture 'virtual_clock' not found*"])


def test_the_room_does_not_need_pytest() -> None:
    program = "import sys; sys.modules['pytest'] = None; import tickwheel.testing"
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True, timeout=60)
