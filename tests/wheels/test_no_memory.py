"""When memory runs out, a call fails as a whole: nothing is lost, and the wheel goes on when there is memory again."""

import pytest

from tests.builds import Build
from tests.wheels.processes import run
from tests.wheels.schemes import SCHEMES

# Every allocation of a call fails in turn, until it needs no more of them; for each scheme in a fork of one process,
# which takes less time than importing everything again.
FAILURES = """
    import os
    import sys

    import _testcapi
    from tickwheel import wheels
    from tickwheel.wheels import *

    def attempt(scheme, options, fail_at):
        far = 50 if scheme == "SimpleWheel" else 50_000
        wheel = getattr(wheels, scheme)(*options)
        timers = [wheel.start(5 + n % 3, n) for n in range(50)]
        wheel.stop(wheel.start(far))  # so that the dial is there: mypyc ends the process if a new one finds no memory
        key = "a key of its own"
        verbs = {{
            "start": lambda: wheel.start(9, "x"),
            "start with a key": lambda: wheel.start(9, "x", key=key),
            "start far": lambda: wheel.start(far, "x"),
            "start_many": lambda: wheel.start_many([9, 10, 11], [1, 2, 3]),
            "restart": lambda: wheel.restart(timers[3], far),
            "advance": lambda: wheel.advance(10),
            "advance by parts": lambda: wheel.advance(10, 5),
        }}
        verb = verbs[{verb!r}]
        failed = False
        _testcapi.set_nomemory(fail_at, fail_at + 1)
        try:
            verb()
        except MemoryError:
            failed = True
        finally:
            _testcapi.remove_mem_hooks()
        if failed:
            wheel.check()
            assert len(wheel) == 50, len(wheel)
            assert wheel.find(key) is None
            assert {{id(timer) for timer in wheel.advance(20)}} == {{id(timer) for timer in timers}}
        return failed

    for scheme, options in {schemes!r}.items():
        if child := os.fork():
            assert os.waitpid(child, 0)[1] == 0, scheme
            continue
        failures = 0
        while attempt(scheme, options, failures + 1):
            failures += 1
        print(scheme, failures, flush=True)
        os._exit(0)
"""

VERBS = {
    "start": SCHEMES,
    "start with a key": SCHEMES,
    "start far": ["BalancedTree", "HierarchicalWheel"],  # a node or a slot is needed
    "start_many": SCHEMES,
    "restart": SCHEMES,
    "advance": SCHEMES,
    "advance by parts": SCHEMES,
}


@pytest.mark.parametrize("verb", VERBS)
def test_a_call_without_memory_changes_nothing(verb: str) -> None:
    schemes = {scheme: SCHEMES[scheme] for scheme in VERBS[verb]}
    lines = run(FAILURES.format(schemes=schemes, verb=verb), "compiled").stdout.splitlines()
    failures = {scheme: int(count) for scheme, count in map(str.split, lines)}
    assert failures.keys() == schemes.keys()
    assert all(failures.values()) or verb not in ("start_many", "advance")  # what grows a list needs some


@pytest.mark.slow
def test_an_advance_that_runs_out_of_memory_hands_out_everything_later(build: Build) -> None:
    """What was put aside for the batch is due again."""
    script = """
        import resource
        from tickwheel.wheels import HierarchicalWheel

        wheel = HierarchicalWheel()
        wheel.start_many([5] * 400_000, [None] * 400_000)
        used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + 1_600_000, resource.RLIM_INFINITY))
        try:
            wheel.advance(10)
        except MemoryError:
            print("out of memory")
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        wheel.check()
        print(len(wheel), len(wheel.advance(20)), len(wheel))
    """
    assert run(script, build.name).stdout.split("\n") == ["out of memory", "400000 400000 0", ""]
