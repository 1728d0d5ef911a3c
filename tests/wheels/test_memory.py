"""Nothing leaks, though native timers are outside the garbage collector.

Payloads that refer to their timer, to each other and back to the wheel are the ways to close a cycle
through a timer. Each is freed by stopping, taking and closing; a wheel that is merely dropped frees
everything unless a payload refers back to it.
"""

import gc
import sys
from typing import Any
from weakref import ref

import pytest

from tests.builds import Build
from tests.wheels.processes import run
from tests.wheels.schemes import SCHEMES, make


class Payload:
    """Something that refers to other things and can be watched."""

    def __init__(self, *held: Any) -> None:
        self.held = list(held)


def tangled(wheel: Any, count: int = 10) -> tuple[list[Any], list[ref[Payload]]]:
    """Start timers whose payloads refer to their timer, to each other and to the wheel."""
    payloads = [Payload() for _ in range(count)]
    timers = wheel.start_many([5 + index % 3 for index in range(count)], payloads)
    for index, payload in enumerate(payloads):
        payload.held += [timers[index], payloads[index - 1], wheel]
    return timers, [ref(payload) for payload in payloads]


def all_freed(watched: list[ref[Payload]]) -> bool:
    gc.collect()
    return all(watch() is None for watch in watched)


def test_stopping_frees_tangled_payloads(wheel: Any) -> None:
    timers, watched = tangled(wheel)
    wheel.stop_many(timers)
    del timers
    assert all_freed(watched)


def test_taking_what_expired_frees_tangled_payloads(wheel: Any) -> None:
    timers, watched = tangled(wheel)
    for timer in wheel.advance(20):
        timer.take()
    del timers, timer
    assert all_freed(watched)


def test_closing_frees_tangled_payloads_though_the_timers_are_kept(wheel: Any) -> None:
    timers, watched = tangled(wheel)
    wheel.close()
    assert all(timer.stopped for timer in timers)
    assert all_freed(watched)


def test_closing_frees_what_was_ready_but_not_handed_out(wheel: Any) -> None:
    timers, watched = tangled(wheel)
    for timer in wheel.advance(20, limit=2):
        timer.take()
    wheel.close()
    del timers, timer
    assert all_freed(watched)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_closing_frees_the_wheel_itself(build: Build, scheme: str) -> None:
    wheel = make(build, scheme)
    payload = Payload(wheel)
    wheel.start(5, payload)
    watched = ref(payload)
    wheel.close()
    del wheel, payload
    assert all_freed([watched])


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_dropped_wheel_frees_payloads_that_do_not_refer_to_it(build: Build, scheme: str) -> None:
    wheel = make(build, scheme)
    payloads = [Payload() for _ in range(10)]
    timers = wheel.start_many([5 + index % 3 for index in range(10)], payloads)
    for index, payload in enumerate(payloads):
        payload.held += [timers[index], payloads[index - 1]]
    watched = [ref(payload) for payload in payloads]
    wheel.advance(5, limit=1)[0].take()
    del wheel, payloads, payload
    assert all(timer.stopped for timer in timers), "handles outlive their wheel, stopped"
    del timers
    assert all_freed(watched)


def test_a_wheel_in_a_cycle_of_its_own_is_collected(build: Build) -> None:
    owner = Payload(build.wheels.HierarchicalWheel())
    owner.held.append(owner)
    payload = Payload()
    owner.held[0].start(5, payload)
    watched = [ref(payload), ref(owner)]
    del owner, payload
    assert all_freed(watched)


def test_overflow_is_freed_with_the_wheel(build: Build) -> None:
    wheel = build.wheels.HierarchicalWheel([(1, 4)])
    payloads = [Payload() for _ in range(10)]
    watched = [ref(payload) for payload in payloads]
    wheel.start_many([100 * index for index in range(10)], payloads)
    del payloads, wheel
    assert all_freed(watched)


def test_native_timers_are_64_bytes_and_unknown_to_the_collector(build: Build) -> None:
    timer = build.wheels.HierarchicalWheel().start(5)
    if build.name == "compiled":
        assert sys.getsizeof(timer) == 64
        assert not gc.is_tracked(timer)
    assert not hasattr(timer, "__dict__")


# -- what runs while a payload is dropped


def test_freeing_a_fired_timer_may_start_another(build: Build) -> None:
    """The freed timer's memory is used again at once; it must not be cleared a second time."""
    script = """
        from tickwheel.wheels import HierarchicalWheel

        class StartsAnother:
            def __del__(self):
                started.append(wheel.start(7, "again"))

        wheel, started = HierarchicalWheel(), []
        for _ in range(100):
            wheel.start(1, StartsAnother())
            wheel.advance(wheel.now + 1)
        wheel.check()
        assert [timer.payload for timer in started] == ["again"] * 100
        print("unharmed")
    """
    assert run(script, build.name).stdout == "unharmed\n"


def test_a_payload_may_stop_its_own_timer_while_it_is_dropped(wheel: Any) -> None:
    class StopsItself:
        timer: Any = None

        def __del__(self) -> None:
            calls.append(wheel.stop(self.timer))

    calls: list[bool] = []
    payload = StopsItself()
    payload.timer = wheel.start(5, payload)
    timer = payload.timer
    del payload
    assert wheel.stop(timer)
    assert calls == [False]
    assert timer.payload is None


def test_timers_freed_deep_inside_a_chain_of_objects_harm_nothing(build: Build) -> None:
    """CPython puts off freeing deep chains in a way that only objects of the collector can take part in."""
    script = """
        from tickwheel.wheels import HierarchicalWheel

        class Connection:
            __slots__ = ("next", "timer")

        wheel = HierarchicalWheel()
        chain, neighbours = None, []
        for index in range(5_000):
            neighbours.append(wheel.start(9, str(index)))  # in memory, a neighbour of the timer that will be freed
            link = Connection()
            link.next, link.timer, chain = chain, wheel.start(5), link
            wheel.stop(link.timer)
        del link, chain
        assert [timer.payload for timer in neighbours] == [str(index) for index in range(5_000)]
        wheel.check()
        print("unharmed")
    """
    assert run(script, build.name).stdout == "unharmed\n"


@pytest.mark.slow
def test_a_chain_of_a_million_timers_is_freed_without_a_million_frames(build: Build) -> None:
    """Each is the payload of the next."""
    length = 1_000_000 if build.name == "compiled" else 200_000  # frames of both are too many for any stack
    script = f"""
        from tickwheel.wheels import HierarchicalWheel

        def chain(wheel):
            timer = None
            for _ in range({length}):
                timer = wheel.start(5, timer)
            return timer

        def free_fired():
            wheel = HierarchicalWheel()
            last = chain(wheel)
            wheel.advance(5).clear()
            assert last.fired
            del last
            wheel.check()

        def free_stopped():
            wheel = HierarchicalWheel()
            assert wheel.stop(chain(wheel))
            wheel.close()

        free_fired()
        free_stopped()
        print("freed")
    """
    assert run(script, build.name).stdout == "freed\n"


@pytest.mark.slow
@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_chain_of_wheels_is_freed_without_a_frame_for_each(build: Build, scheme: str) -> None:
    """Each is the payload of a timer in the next, or its key."""
    length = 20_000 if build.name == "compiled" else 5_000  # a frame for each would be too many for any stack
    script = f"""
        from tickwheel import wheels

        class Last:
            def __del__(self):
                print("freed")

        wheel = Last()
        for number in range({length}):
            following = wheels.{scheme}(*{[8] if scheme in ("SimpleWheel", "HashedWheel", "SortedHashedWheel") else []})
            following.start(1, wheel if number % 2 else None, key=None if number % 2 else wheel)
            wheel = following
        del following
        del wheel
        print("all")
    """
    assert run(script, build.name).stdout == "freed\nall\n"


def test_what_is_freed_late_in_a_chain_is_freed_once_and_completely(build: Build) -> None:
    """Destructors along the chain start and free other timers meanwhile."""
    script = """
        from tickwheel.wheels import HierarchicalWheel

        class Link:
            __slots__ = ("number", "timer")

            def __init__(self, number, timer):
                self.number, self.timer = number, timer

            def __del__(self):
                freed.append(self.number)
                wheel.stop(wheel.start(3, wheel.start(7)))

        wheel, freed, timer = HierarchicalWheel(), [], None
        for number in range(20_000):
            payload = Link(number, timer) if number % 7 == 0 else timer
            timer = wheel.start(5, payload)
        del payload
        wheel.advance(5).clear()
        del timer
        assert sorted(freed) == list(range(0, 20_000, 7)), len(freed)
        wheel.check()
        assert len(wheel) == len(freed)
        assert len(wheel.advance(12)) == len(freed)
        print("freed")
    """
    assert run(script, build.name).stdout == "freed\n"


@pytest.mark.slow
def test_millions_of_timers_leave_memory_where_it_was(build: Build) -> None:
    compiled = build.name == "compiled"
    count, most = (3_000_000, 100_000) if compiled else (80_000, 20_000)
    bytes_max = 8_000_000 if compiled else 4_000_000  # a timer that stayed would take 64, or some 150 interpreted
    script = f"""
        import gc
        from tickwheel.wheels import HierarchicalWheel

        def resident_bytes():
            gc.collect()
            return int(open("/proc/self/statm").read().split()[1]) * 4096

        def turn(wheel, count):
            for first in range(0, count, {most}):
                delays = [(first + index) * 7919 % 360_000 for index in range({most})]
                timers = wheel.start_many(delays, delays)
                wheel.stop_many(timers[::2])
                for timer in wheel.advance(wheel.now + 360_000):
                    timer.take()

        wheel = HierarchicalWheel()
        turn(wheel, {2 * most})
        before = resident_bytes()
        turn(wheel, {count})
        after = resident_bytes()
        assert len(wheel) == 0
        assert wheel.stats.started == {count + 2 * most}
        assert after - before < {bytes_max}, f"{{after - before}} bytes more"
        print("level")
    """
    assert run(script, build.name).stdout == "level\n"
