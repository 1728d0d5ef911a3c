"""Runs a module of CPython's own asyncio tests on what is ours.

    python -m tests.timers.cpython_suite test_timeouts
    python -m tests.timers.cpython_suite test_timeouts --functions --standard-loop

`loop` stands for the tests that every event loop on Unix must pass; any other name is a module of
`test.test_asyncio`, run with a policy that makes our loops, or with the standard one. With `--functions`,
`asyncio.timeout`, `timeout_at`, `wait_for` and `sleep` are ours while it runs. A run that hangs ends with the stacks of
all its threads.
"""

import argparse
import asyncio
import faulthandler
import importlib
import signal
import sys
import unittest
import warnings
from types import ModuleType

from tickwheel import aio
from tickwheel.aio import EventLoop

HANG_SECONDS = 180  # each run takes seconds

# What a test asks of asyncio's own function and ours does otherwise, and why.
SETTLED_OTHERWISE = {
    # Python 3.11 has this test for a wait_for of its own making; ours is that of 3.12, which cancels once.
    "test_wait_for_self_cancellation": sys.version_info < (3, 12),
}


def loop_tests() -> unittest.TestSuite:
    """Collect the tests for event loops, to be run on ours."""
    from test.test_asyncio import test_events, utils  # noqa: PLC0415 - not every interpreter has them

    class EventLoopTests(test_events.UnixEventLoopTestsMixin, utils.TestCase):  # type: ignore[misc]
        def create_event_loop(self) -> EventLoop:
            return EventLoop()

    return unittest.defaultTestLoader.loadTestsFromTestCase(EventLoopTests)


def use_our_loop() -> None:
    """Make our loop everyone's default."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)

        class Policy(asyncio.DefaultEventLoopPolicy):
            _loop_factory = EventLoop

        asyncio.set_event_loop_policy(Policy())
    assert isinstance(asyncio.new_event_loop(), EventLoop)


def use_our_functions() -> None:
    """Put ours in the place of asyncio's, wherever they can be asked for."""
    places: list[ModuleType] = [asyncio, asyncio.tasks, asyncio.timeouts]
    for name in ("timeout", "timeout_at", "Timeout", "wait_for", "sleep"):
        for place in places:
            if hasattr(place, name):
                setattr(place, name, getattr(aio, name))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("module")
    parser.add_argument("--functions", action="store_true")
    parser.add_argument("--standard-loop", action="store_true")
    options = parser.parse_args()
    faulthandler.dump_traceback_later(HANG_SECONDS, exit=True)
    # A process started in the background of a shell ignores SIGINT, and then CPython's tests of it wait for ever.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if not options.standard_loop:
        use_our_loop()
    if options.module == "loop":
        suite = loop_tests()
    else:
        module = importlib.import_module(f"test.test_asyncio.{options.module}")
        if options.functions:
            use_our_functions()
            for case in (found for found in vars(module).values() if isinstance(found, type)):
                for name in [name for name, settled in SETTLED_OTHERWISE.items() if settled and name in vars(case)]:
                    delattr(case, name)
        suite = unittest.defaultTestLoader.loadTestsFromModule(module)
    result = unittest.TextTestRunner(verbosity=0).run(suite)
    sys.exit(not result.wasSuccessful())
