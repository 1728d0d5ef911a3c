"""Runs CPython's own tests of the standard queues on the delay queues.

    python -m tests.recipes.cpython_queues threads
    python -m tests.recipes.cpython_queues asyncio --loop uvloop

`threads` stands for `test.test_queue` on `DelayQueue`, `asyncio` for `test.test_asyncio.test_queues` on
`AsyncDelayQueue`. Tests of the other queues, such as `LifoQueue`, are left out. No test is excepted: without delays
the delay queues behave as the standard queues. docs/recipes.md lists what differs with delays.
"""

import argparse
import asyncio
import importlib
import queue
import sys
import types
import unittest
import warnings
from collections.abc import Iterator
from typing import Any

import uvloop

from tickwheel import AsyncDelayQueue, DelayQueue
from tickwheel.aio import EventLoop

OTHER_QUEUES = ("Lifo", "Priority", "Simple")

LOOPS = {"asyncio": asyncio.SelectorEventLoop, "uvloop": uvloop.Loop, "tickwheel": EventLoop}


def load_thread_tests() -> unittest.TestSuite:
    """Load the tests of `queue.Queue`, with `DelayQueue` in its place."""
    module = importlib.import_module("test.test_queue")
    # The tests look up a queue's expected order by the name of its class.
    ours = types.SimpleNamespace(**{**vars(queue), "Queue": type("Queue", (DelayQueue,), {})})
    for case in vars(module).values():
        if isinstance(case, type) and "queue" in vars(case):
            case.queue = ours  # type: ignore[attr-defined]
    del module.PyQueueTest, module.PyFailingQueueTest  # the same tests, on a copy of the module without C code
    return unittest.defaultTestLoader.loadTestsFromModule(module)


def load_asyncio_tests(loop_factory: Any) -> unittest.TestSuite:
    """Load the tests of `asyncio.Queue`, with `AsyncDelayQueue` in its place, on a kind of event loop."""
    asyncio.Queue = type("Queue", (AsyncDelayQueue,), {})  # type: ignore[assignment,misc] # before the import
    module = importlib.import_module("test.test_asyncio.test_queues")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)

        class Policy(asyncio.DefaultEventLoopPolicy):
            _loop_factory = loop_factory

        asyncio.set_event_loop_policy(Policy())
    loop = asyncio.new_event_loop()
    assert isinstance(loop, loop_factory)
    loop.close()
    return unittest.defaultTestLoader.loadTestsFromModule(module)


def select(suite: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    """Select the tests of our queues."""
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from select(test)
        elif not any(other in type(test).__name__ for other in OTHER_QUEUES):
            yield test


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("queues", choices=["threads", "asyncio"])
    parser.add_argument("--loop", choices=LOOPS, default="asyncio")
    options = parser.parse_args()
    loaded = load_thread_tests() if options.queues == "threads" else load_asyncio_tests(LOOPS[options.loop])
    result = unittest.TextTestRunner(verbosity=0).run(unittest.TestSuite(select(loaded)))
    sys.exit(not result.wasSuccessful())
