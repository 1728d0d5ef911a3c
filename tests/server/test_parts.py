"""Parts of the server by themselves, where a process and its clock would be in the way."""

import asyncio
import gzip
from pathlib import Path
from typing import Any

import pytest

from tickwheel import VirtualClock
from tickwheel.observe import Event
from tickwheel.server.doors import SESSION_S, SESSIONS_MAX, Rates, Sessions
from tickwheel.server.event_stream import WAITING_MAX, EventStream, TooManyListeners
from tickwheel.server.figures import Figures
from tickwheel.server.moments import moment
from tickwheel.server.static import read
from tickwheel.server.tokens import Holder

HOLDER = Holder("ada", "write")


def event(number: int = 0, **fields: Any) -> Event:
    return Event(**{"kind": "added", "task_id": f"t{number}", "handler": "h", "at": number, **fields})


def test_a_listener_that_does_not_keep_up_is_let_go() -> None:
    async def main() -> None:
        stream = EventStream(first=0, kept=10, listeners_max=2)
        (behind, slow), (_, quick) = stream.listen(None), stream.listen(None)
        await anext(slow)
        await anext(quick)
        with pytest.raises(TooManyListeners):
            stream.listen(None)
        for number in range(WAITING_MAX + 1):
            stream.hear(event(number))
            assert b"t%d" % number in await anext(quick)
        assert len(stream) == 1
        assert behind.gone
        left = [frame async for frame in slow]
        assert len(left) == WAITING_MAX, "it hears what waited for it, and then the end"
        stream.close()
        assert [frame async for frame in quick] == []
        assert len(stream) == 0

    asyncio.run(main())


def test_rates_fill_up_again() -> None:
    clock = VirtualClock()
    rates = Rates(10, clock)
    assert [rates.take("a") for _ in range(20)] == [0.0] * 20
    assert rates.take("a") == pytest.approx(0.1)
    assert rates.take("b") == 0.0
    clock.advance(0.1)
    assert (rates.take("a"), rates.take("a") > 0) == (0.0, True)
    assert [Rates(0, clock).take("a") for _ in range(100)] == [0.0] * 100


def test_sessions_end_and_are_bounded() -> None:
    clock = VirtualClock()
    sessions = Sessions(clock)
    first = sessions.begin(HOLDER)
    clock.advance(SESSION_S - 1)
    assert sessions.holder_of(first) == HOLDER
    clock.advance(2)
    assert sessions.holder_of(first) is None
    second = sessions.begin(HOLDER)
    for _ in range(SESSIONS_MAX):
        sessions.begin(HOLDER)
    assert sessions.holder_of(second) is None


def test_figures_are_taken_each_second() -> None:
    figures = Figures()
    for number in range(100):
        figures.hear(event(number))
        figures.hear(event(number, kind="started", late_ms=number))
        figures.hear(event(number, kind="completed", took_ms=5))
    figures.tick(1000, None)
    figures.tick(2000, None)
    first, second = figures.points
    assert (first.added, first.executed, first.late_p99) == (100, 100, 0.099)
    assert (second.added, second.executed, second.late_p99) == (0, 0, 0.0)
    assert figures.rates().added == 50.0
    lateness = figures.lateness()
    assert (lateness.p50, lateness.p90, lateness.p99, lateness.max) == (0.05, 0.09, 0.099, 0.099)
    assert [(bucket.le, bucket.count) for bucket in lateness.buckets][:2] == [(0.001, 2), (0.0025, 3)]
    for second_number in range(1000):
        figures.tick(second_number * 1000, None)
    assert len(figures.points) == 300


def test_files_are_compressed_where_it_is_worth_it(tmp_path: Path) -> None:
    (tmp_path / "js").mkdir()
    (tmp_path / "js" / "app.js").write_text("let x = 1;\n" * 500)
    (tmp_path / "small.css").write_text("p {}")
    (tmp_path / ".hidden").write_text("no")
    files = dict(read(tmp_path))
    assert set(files) == {"js/app.js", "small.css"}
    script = files["js/app.js"]
    assert script.zipped is not None
    assert gzip.decompress(script.zipped) == script.plain
    assert (script.media_type, files["small.css"].media_type) == ("text/javascript", "text/css")
    assert files["small.css"].zipped is None
    assert script.etag != files["small.css"].etag


def test_moments_beyond_every_calendar_are_written() -> None:
    assert moment(0) == "1970-01-01T00:00:00.000Z"
    assert moment(2**53 - 1) == "9999-12-31T23:59:59.999Z"
