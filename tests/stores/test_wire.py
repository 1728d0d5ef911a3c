"""What a process has to say to others: it is said however soon it closes its store, and closing never takes long."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tickwheel.errors import StoreUnavailable
from tickwheel.stores import wire
from tickwheel.stores.wire import Wire

Story = Callable[["Server"], Awaitable[None]]


class Server:
    """What is dialled: it notes what it is told, and is away, silent or broken as a test wants."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.dialled = 0
        self.hung_up = 0
        self.refuses = 0  # how many dials in a row, from now on
        self.breaks = 0  # how many lines, when something is said
        self.silent = False

    async def dial(self, _lost: Callable[[], None]) -> Any:
        self.dialled += 1
        await asyncio.sleep(0)
        if self.silent:
            await asyncio.Event().wait()
        if self.refuses:
            self.refuses -= 1
            raise StoreUnavailable("away")
        return Line(self)

    def wire(self, *, cheap: bool = False) -> Wire:
        return Wire(self.dial, 64, cheap=cheap)

    def where(self) -> list[str]:
        return [hint.split()[1] for hint in self.said]


class Line:
    def __init__(self, server: Server) -> None:
        self._server = server

    async def listen(self, hear: Callable[[str], None]) -> None:
        pass

    async def say(self, hint: str) -> None:
        await asyncio.sleep(0)
        if self._server.silent:
            await asyncio.Event().wait()
        if self._server.breaks:
            self._server.breaks -= 1
            raise StoreUnavailable("the connection was lost")
        self._server.said.append(hint)

    async def probe(self) -> None:
        pass

    async def hang_up(self) -> None:
        self._server.hung_up += 1


def play(story: Story) -> None:
    async def main() -> None:
        server = Server()
        async with asyncio.timeout(20):
            await story(server)

    asyncio.run(main())


def test_what_is_told_right_before_the_end_is_said() -> None:
    async def story(server: Server) -> None:
        told = server.wire()
        told.tell({4, 17})
        await told.close()
        assert server.where() == ["4,17"]
        assert server.hung_up == 1

    play(story)


def test_what_could_not_be_said_yet_is_said_at_the_end() -> None:
    async def story(server: Server) -> None:
        server.refuses = 1
        told = server.wire()
        told.tell({4})
        while server.refuses:  # noqa: ASYNC110
            await asyncio.sleep(0)
        await told.close()  # while it waits before it dials again
        assert server.where() == ["4"]

    play(story)


@pytest.mark.parametrize(("breaks", "said"), [(1, ["4"]), (2, [])])
def test_a_line_that_breaks_at_the_end_is_made_anew_once(breaks: int, said: list[str]) -> None:
    async def story(server: Server) -> None:
        server.breaks = breaks
        told = server.wire()
        told.tell({4})
        await told.close()
        assert server.where() == said
        assert server.dialled == server.hung_up == 2

    play(story)


def test_a_server_that_is_away_at_the_end_is_asked_once() -> None:
    async def story(server: Server) -> None:
        server.refuses = 1000
        told = server.wire()
        told.tell({4})
        await told.close()
        assert server.dialled == 1

    play(story)


@pytest.mark.parametrize("connected", [False, True])
def test_the_end_does_not_wait_for_a_silent_server(monkeypatch: pytest.MonkeyPatch, connected: bool) -> None:
    monkeypatch.setattr(wire, "HANG_UP_S", 0.05)

    async def story(server: Server) -> None:
        told = server.wire()
        if connected:
            told.watch([0])
            while told.carried() is not None:  # noqa: ASYNC110 - as long as there is no line
                await asyncio.sleep(0)
        server.silent = True
        told.tell({4})
        await told.close()
        assert server.said == []
        assert server.hung_up == connected

    play(story)


def test_a_client_that_makes_one_change_needs_no_line() -> None:
    async def story(server: Server) -> None:
        told = server.wire()
        spell = told.carried()
        assert spell is not None
        assert spell({17, 4}).split()[1] == "4,17"
        told.tell({4, 17}, carried=True)
        await told.close()
        assert server.dialled == 0

    play(story)


def test_who_makes_more_changes_gets_a_line_that_they_are_told_over() -> None:
    async def story(server: Server) -> None:
        told = server.wire()
        while told.carried() is not None:
            told.tell({4}, carried=True)
            await asyncio.sleep(0)
        assert server.dialled == 1
        told.tell({5})
        await told.close()
        assert server.where() == ["5"]

    play(story)


def test_changes_that_carry_hints_for_nothing_do_so_unless_the_last_hint_was_just_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(wire, "GAP_S", 0.2)

    async def story(server: Server) -> None:
        told = server.wire(cheap=True)
        for partition in range(2):
            assert told.carried() is not None
            told.tell({partition}, carried=True)
            assert told.carried() is None
            told.tell({10 + partition})  # goes with whatever else changes in these milliseconds
            told.tell({20 + partition})
            while len(server.said) <= partition:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            await asyncio.sleep(1.5 * wire.GAP_S)
        await told.close()
        assert server.where() == ["10,20", "11,21"]

    play(story)


def test_what_is_carried_is_known_in_this_process_as_well() -> None:
    async def story(server: Server) -> None:
        told = server.wire()
        heard = told.watch([4])
        told.tell({4}, carried=True)
        assert await anext(heard) is not None
        await told.close()

    play(story)
