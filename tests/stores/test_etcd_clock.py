"""The clock of an etcd cluster: what whole seconds tell of it, who is asked, and what counts when nobody answers."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.etcd import Prefix
from tickwheel.stores.etcd.address import Address
from tickwheel.stores.etcd.ahead import Ahead
from tickwheel.stores.etcd.clock import MembersClock
from tickwheel.testing.etcd import quiet_ports

MS = 1_000_000
SECOND = 10**9
HOUR = 3600 * SECOND

ways = st.integers(0, 300 * MS)


def ask(ahead_ns: int, asked_ns: int, there_ns: int = 0, back_ns: int = 0) -> Ahead:
    """Have a clock read that is so far ahead, and answer."""
    read_ns = asked_ns + there_ns + ahead_ns
    return Ahead.told(read_ns // SECOND, asked_ns, asked_ns + there_ns + back_ns)


@given(st.integers(-HOUR, HOUR), st.lists(st.tuples(st.integers(0, 3 * SECOND), ways, ways), min_size=1))
def test_what_is_true_is_always_between_the_bounds(ahead_ns: int, asks: list[tuple[int, int, int]]) -> None:
    now_ns, known = 0, ask(ahead_ns, 0)
    for pause_ns, *way_ns in asks:
        now_ns += pause_ns
        known = known.narrowed(ask(ahead_ns, now_ns, *way_ns))
        assert known.holds(ahead_ns)
        assert known.at(now_ns + HOUR).holds(ahead_ns)
        assert known.choose() <= ahead_ns, "rather late than early"


@given(st.integers(-HOUR, HOUR), st.integers(0, MS), st.integers(0, MS))
def test_each_question_halves_the_doubt(ahead_ns: int, there_ns: int, back_ns: int) -> None:
    known, now_ns = ask(ahead_ns, 0, there_ns, back_ns), SECOND
    for _ in range(8):
        asked_ns = known.at(now_ns).next_second_ns(now_ns)
        assert now_ns <= asked_ns < now_ns + SECOND, "and takes a second at the most"
        known = known.narrowed(ask(ahead_ns, asked_ns, there_ns, back_ns))
        now_ns = asked_ns + there_ns + back_ns
    assert known.is_narrow


def test_what_may_be_right_is_left_as_it_is() -> None:
    known = ask(0, 300 * MS)
    assert known.choose(200 * MS) == 200 * MS
    assert known.choose(HOUR, -200 * MS) == -200 * MS
    assert known.choose(HOUR, -HOUR) == known.least_ns


def test_of_a_clock_that_was_set_only_the_last_answer_counts() -> None:
    known = ask(0, 0).narrowed(ask(0, 990 * MS))
    for ahead_ns in (HOUR, -HOUR):
        assert known.narrowed(ask(ahead_ns, 2 * SECOND)) == ask(ahead_ns, 2 * SECOND)


def test_one_of_three_that_is_wrong_does_not_matter() -> None:
    good, behind, ahead = ask(0, 0), ask(-HOUR, 0), ask(HOUR, 0)
    assert Ahead.middle([ahead, good, good]) == Ahead.middle([good, behind, good]) == good
    assert Ahead.middle([behind, good, ahead]) == good
    assert Ahead.middle([ahead, good]) == good, "rather late than early"


class Wall:
    """The machine's clocks, of which the wall clock can be set."""

    def __init__(self, off_ns: int = 0) -> None:
        self.off_ns = off_ns

    monotonic_ns = staticmethod(time.monotonic_ns)

    def time_ns(self) -> int:
        return time.time_ns() + self.off_ns


async def follow(url: str, wall: Wall, story: Callable[[MembersClock], Awaitable[None]]) -> None:
    clock = MembersClock(Address.of(url), wall)
    await clock.start()
    await story(clock)
    await clock.close()


def behind_ms(clock: MembersClock) -> float:
    told_ms = clock.now_ms()
    return time.time_ns() / MS - told_ms


@pytest.mark.parametrize("off_ns", [HOUR, -HOUR])
def test_a_machine_whose_clock_is_wrong_goes_by_the_members(prefix: Prefix, off_ns: int) -> None:
    async def story(clock: MembersClock) -> None:
        assert 0 <= behind_ms(clock) < 1000

    asyncio.run(follow(prefix.url(), Wall(off_ns), story))


def test_a_machine_whose_clock_is_right_goes_by_that(prefix: Prefix) -> None:
    async def story(clock: MembersClock) -> None:
        for _ in range(20):
            assert 0 <= behind_ms(clock) < 100
            await asyncio.sleep(0.05)  # in which the members are asked more

    asyncio.run(follow(prefix.url(), Wall(), story))


def test_after_a_sleep_or_a_step_the_members_are_asked_again(prefix: Prefix) -> None:
    wall = Wall()

    async def story(clock: MembersClock) -> None:
        for wall.off_ns in (HOUR, -HOUR):
            await clock.settle()
            assert 0 <= behind_ms(clock) < 1000

    asyncio.run(follow(prefix.url(), wall, story))


def test_where_nobody_tells_the_time_this_machine_does_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    answers = [b"\0\0\x18\4 no HTTP", b"HTTP/1.1 200 OK\r\nServer: undated\r\n\r\n"]

    async def mumble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(answers.pop())
        writer.close()

    async def story(clock: MembersClock) -> None:
        assert -3_600_000 <= behind_ms(clock) < -3_599_000
        assert answers == []

    async def main() -> None:
        async with await asyncio.start_server(mumble, "127.0.0.1", 0) as server:
            ports = [*quiet_ports(1), server.sockets[0].getsockname()[1]]
            url = f"etcd://{','.join(f'127.0.0.1:{port}' for port in ports)},localhost:{ports[1]}/shop"
            await follow(url, Wall(HOUR), story)

    with caplog.at_level(logging.WARNING, "tickwheel.stores.etcd"):
        asyncio.run(main())
    [said] = caplog.messages
    assert "keep it right" in said
