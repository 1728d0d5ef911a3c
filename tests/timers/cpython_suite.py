"""Runs a module of CPython's own asyncio tests with `EventLoop` as the loop.

    python -m tests.timers.cpython_suite test_timeouts

`loop` stands for the tests that every event loop on Unix must pass; any other name is a module of
`test.test_asyncio`, run with a policy that makes our loops.
"""

import asyncio
import importlib
import sys
import unittest
import warnings

from tickwheel.aio import EventLoop


def loop_tests() -> unittest.TestSuite:
    """Collect the tests for event loops, to be run on ours."""
    from test.test_asyncio import test_events, utils  # noqa: PLC0415 - not every interpreter has them

    class EventLoopTests(test_events.UnixEventLoopTestsMixin, utils.TestCase):  # type: ignore[misc]
        def create_event_loop(self) -> EventLoop:
            return EventLoop()

    return unittest.defaultTestLoader.loadTestsFromTestCase(EventLoopTests)


def module_tests(name: str) -> unittest.TestSuite:
    """Collect the tests of a module, with our loop as everyone's default."""
    module = importlib.import_module(f"test.test_asyncio.{name}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)

        class Policy(asyncio.DefaultEventLoopPolicy):
            _loop_factory = EventLoop

        asyncio.set_event_loop_policy(Policy())
    assert isinstance(asyncio.new_event_loop(), EventLoop)
    return unittest.defaultTestLoader.loadTestsFromModule(module)


if __name__ == "__main__":
    suite = loop_tests() if sys.argv[1] == "loop" else module_tests(sys.argv[1])
    result = unittest.TextTestRunner(verbosity=0).run(suite)
    sys.exit(not result.wasSuccessful())
