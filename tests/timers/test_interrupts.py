"""What a signal handler raises in the middle of a call, such as `KeyboardInterrupt`, breaks nothing.

Interpreted timers may break: that is a documented limit.
"""

import pytest

from tests.builds import Build
from tests.interrupts import said


@pytest.mark.parametrize("delay_ms", [0.5, 1000])
def test_timers_go_on_after_an_interrupted_start(delay_ms: float) -> None:
    script = f"""
        from tickwheel import Timers
        timers = Timers()
        for _ in range(150):
            repeat(lambda: timers.after({delay_ms} / 1000, int))
            timers.cancel_group("none")
            ran = threading.Event()
            timers.after(0, ran.set)
            assert ran.wait(60), (timers, timers._registry.lock)
        print("every timer ran")
    """
    assert said(script, "compiled") == "every timer ran\n"


def test_default_timers_may_be_asked_for_while_they_are_made(build: Build) -> None:
    script = """
        from tickwheel import default_timers
        def ask(*_):
            default_timers().after(3600, print)
        signal.signal(signal.SIGALRM, ask)
        for _ in range(1000):
            signal.setitimer(signal.ITIMER_REAL, rng.uniform(1e-6, 1e-4))
            default_timers().stop()
        signal.setitimer(signal.ITIMER_REAL, 0)
        ran = threading.Event()
        default_timers().after(0, ran.set)
        assert ran.wait(60)
        print("no deadlock")
    """
    assert said(script, build.name) == "no deadlock\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "wheels.HierarchicalWheel",
        "wheels.SimpleWheel",
        "wheels.HashedWheel",
        "wheels.BinaryHeap",
        "wheels.BalancedTree",
        "wheels.OrderedList",
        "lambda: TTLCache(10, 5)",
    ],
)
def test_what_is_interrupted_while_it_is_made_is_dropped_without_a_word(build: Build, name: str) -> None:
    script = f"""
        from tickwheel import TTLCache, wheels
        for _ in range(150):
            repeat({name})
        print("unharmed")
    """
    assert said(script, build.name) == "unharmed\n"


@pytest.mark.parametrize("kind", ["str", "float", "Decimal", "Fraction", "timedelta"])
def test_an_interrupted_duration_raises_the_interrupt(kind: str) -> None:
    script = f"""
        from datetime import timedelta
        from decimal import Decimal
        from fractions import Fraction
        from tickwheel.durations import to_ns
        makers = dict(
            str=lambda number: f"{{number}}.{{number}}s", float=float, Decimal=Decimal,
            Fraction=lambda number: Fraction(number, 3 ** 40), timedelta=lambda number: timedelta(days=number / 1e6),
        )
        make, number = makers["{kind}"], 10**9
        def convert():
            global number
            number += 1
            to_ns(make(number))
        for _ in range(800):
            repeat(convert)
        print("unharmed")
    """
    assert said(script, "compiled") == "unharmed\n"
