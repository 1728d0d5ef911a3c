"""Destructors that the garbage collector runs in the middle of a verb, and that use the same timers.

Compiled only: on the interpreted build this is a documented limit.
"""

import pytest

from tests.wheels.processes import run

COLLECTED = """
    import gc
    from tickwheel import ManualTimers

    gc.disable()

    class Junk:
        def __init__(self, act):
            self.cycle = self
            self.act = act

        def __del__(self):
            runs.append(self.act)
            self.act()

    def attempt(verb, act, at):
        timers, ran = ManualTimers(slow="1d"), []
        victim = timers.after("50ms", ran.append, "victim")  # on the lowest dial
        keyed = timers.after("50ms", ran.append, "keyed", key="keyed")
        timers.advance(0.001)
        extra = []
        acts = {
            "start": lambda: extra.append(timers.after("30d", ran.append, "by the destructor")),
            "start and cancel": lambda: timers.after("1d", ran.append, "never").cancel(),
            "cancel": lambda: extra.append(victim.cancel()),
            "advance": lambda: timers.advance(0.01),
            "run": lambda: timers.advance("3m"),
            "take the key": lambda: extra.append(timers.after("5m", ran.append, "key", key="new", replace=True)),
        }
        answer, started = None, []
        verbs = {
            "after": lambda: started.append(timers.after("5m", ran.append, "verb")),
            "after with a key": lambda: started.append(timers.after("5m", ran.append, "verb", key="new", replace=True)),
            "every": lambda: started.append(timers.every("5m", ran.append, "verb", times=1)),
            "touch": lambda: victim.touch("10m"),
            "touch a key": lambda: timers.touch("keyed", "10m"),
            "cancel": lambda: victim.cancel(),
            "run": lambda: timers.advance("4m"),
            "stop": lambda: started.extend(timers.stop()),
        }
        Junk(acts[act])
        runs.clear()
        gc.set_threshold(gc.get_count()[0] + at)
        gc.enable()
        try:
            answer = verbs[verb]()
        finally:
            gc.disable()
        came = bool(runs)
        timers._registry.wheel.check()
        if verb == "stop":
            assert all(left.callback is not None for left in started), started
        else:
            if verb == "touch":
                assert answer == (victim.due_in is not None), answer
            timers.advance("31d")
            timers._registry.wheel.check()
            assert len(timers) == 0, len(timers)
            assert ran.count("victim") == victim.count and ran.count("keyed") == 1, ran
            if started and not (verb == "after with a key" and act == "take the key"):
                assert ran.count("verb") == 1, ran
            assert victim.done or "cancel" in (verb, act), victim
        timers.stop()
        gc.collect()
        return came

    runs = []
    for act in ("start", "start and cancel", "cancel", "advance", "run", "take the key"):
        at = 1
        while attempt(%r, act, at):
            at += 1
"""


@pytest.mark.parametrize(
    "verb", ["after", "after with a key", "every", "touch", "touch a key", "cancel", "run", "stop"]
)
def test_a_destructor_that_the_collector_runs_in_a_verb_breaks_no_timer(verb: str) -> None:
    assert "Error" not in run(COLLECTED % verb, "compiled").stderr


ASYNC = """
    import asyncio, gc
    from tickwheel import AsyncTimers, aio

    class Junk:
        def __init__(self, timers, ran):
            self.cycle = self
            self.timers, self.ran = timers, ran

        def __del__(self):
            self.timers.after(0, self.ran.set)

    async def main():
        async with AsyncTimers() as timers:
            for at in range(16):
                ran = asyncio.Event()
                gc.collect()
                gc.disable()
                Junk(timers, ran)
                gc.set_threshold(gc.get_count()[0] + at)
                gc.enable()
                timers.after("1h", print)
                gc.disable()
                gc.collect()
                async with asyncio.timeout(60):
                    await ran.wait()
        print("each ran")
"""


@pytest.mark.parametrize("loop", ["asyncio.SelectorEventLoop", "aio.EventLoop"])
def test_a_timer_started_while_the_loop_is_asked_for_a_later_call_is_not_late(loop: str) -> None:
    script = f"{ASYNC}\n    with asyncio.Runner(loop_factory={loop}) as runner:\n        runner.run(main())\n"
    assert run(script, "compiled").stdout == "each ran\n"


def test_a_timer_started_on_the_thread_just_before_it_sleeps_is_not_late() -> None:
    script = """
        import threading
        from tickwheel import Timers
        from tickwheel.timers import thread_driver

        ran, wait = threading.Event(), thread_driver.Bell.wait

        def start_and_wait(bell, seconds):  # as a destructor does that the collector runs there
            thread_driver.Bell.wait = wait
            timers.after(0.01, ran.set)
            wait(bell, seconds)

        timers = Timers()
        thread_driver.Bell.wait = start_and_wait
        timers.after(3600, print)
        assert ran.wait(60)
        print("it ran")
    """
    assert run(script, "compiled").stdout == "it ran\n"
