"""The garbage collector may run any destructor while a wheel is used, and the destructor may use the same wheel.

Compiled code is interrupted only where it makes something that the collector tracks. The collection is made to come at
the first such moment of a call, the second, and so on, until the call has no more of them.
"""

import pytest

from tests.wheels.processes import run
from tests.wheels.schemes import SCHEMES

COLLECTED = """
    import gc
    from tickwheel import wheels
    from tickwheel.wheels import *

    gc.disable()

    class Junk:
        def __init__(self, act):
            self.cycle = self
            self.act = act

        def __del__(self):
            self.act()
            runs.append(self.act)

    def attempt(verb, act, at):
        wheel = getattr(wheels, {scheme!r})(*{options!r})
        timers = [wheel.start(delay, delay) for delay in (5, 7)]
        wheel.advance(1)
        started = []
        acts = {{
            "start and stop": lambda: wheel.stop(wheel.start({far})),
            "start": lambda: started.append(wheel.start({far} - 1, "by the destructor")),
            "stop": lambda: wheel.stop(timers[0]),
            "advance": lambda: [timer.take() for timer in wheel.advance(wheel.now + 2)],
            "fire": lambda: [timer.take() for timer in wheel.advance(wheel.now + 20)],
        }}
        verbs = {{
            "start": lambda: started.append(wheel.start(9, "x")),
            "start far": lambda: started.append(wheel.start({far} // 2, "x")),
            "start with a key": lambda: started.append(wheel.start({far} // 2, "x", key="k")),
            "start_many": lambda: started.extend(wheel.start_many([9, {far} // 2], ["x", "y"])),
            "restart": lambda: wheel.restart(timers[1], {far} // 2) if timers[1].pending else None,
            "advance": lambda: [timer.take() for timer in wheel.advance(wheel.now + 3)],
        }}
        Junk(acts[act])
        runs.clear()
        gc.set_threshold(gc.get_count()[0] + at)
        gc.enable()
        try:
            verbs[verb]()
        finally:
            gc.disable()
        came = bool(runs)
        wheel.check()
        wheel.advance(wheel.now + {far})
        wheel.check()
        assert len(wheel) == 0, len(wheel)
        assert all(timer.fired or timer.stopped for timer in timers + started)
        gc.collect()
        return came

    runs = []
    for verb in ("start", "start far", "start with a key", "start_many", "restart", "advance"):
        for act in ("start and stop", "start", "stop", "advance", "fire"):
            at = 1
            while attempt(verb, act, at):
                at += 1
"""


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_destructor_that_the_collector_runs_in_a_call_leaves_the_wheel_whole(scheme: str) -> None:
    far = 50 if scheme == "SimpleWheel" else 50_000
    run(COLLECTED.format(scheme=scheme, options=SCHEMES[scheme], far=far), "compiled")
