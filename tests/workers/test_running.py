"""A run gets its task's arguments and its context, and says what became of it."""

import asyncio
import gc
import sys
from asyncio import CancelledError
from collections.abc import Callable
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import partial
from itertools import count
from threading import Thread, current_thread, main_thread
from threading import enumerate as enumerate_threads
from typing import TYPE_CHECKING, Any

import pytest

from tests.workers import functions
from tests.workers.functions import PATIENCE_S, handler, in_process, task
from tickwheel.errors import (
    ForeignWorkers,
    InvalidArguments,
    InvalidResult,
    InvalidWorkers,
    ResultTooLarge,
    RunFailed,
    TaskRunning,
    UnnamedHandler,
)
from tickwheel.tasks import Handler, Task, TaskContext
from tickwheel.workers import Workers

if TYPE_CHECKING:
    from collections import OrderedDict


def run(handler: Handler, task: Task) -> Any:
    async def main() -> Any:
        workers = Workers(threads=2, processes=1)
        try:
            return await workers.run(handler, task)
        finally:
            assert await workers.close() == []

    return asyncio.run(main())


def plain(function: Callable[..., Any]) -> Handler:
    """Run a plain function on a thread."""
    return handler(function)


def on_loop(function: Callable[..., Any]) -> Handler:
    """Run a plain function inside an async one."""

    async def call() -> Any:
        return function()

    return handler(call)


EVERYWHERE = pytest.mark.parametrize("make", [plain, on_loop], ids=["thread", "loop"])


def test_plain_function_runs_on_a_thread_of_its_own() -> None:
    assert run(handler(lambda: current_thread() is not main_thread()), task()) is True


def test_async_function_runs_on_the_loop() -> None:
    async def where() -> bool:
        return current_thread() is main_thread()

    assert run(handler(where), task()) is True


def test_function_for_processes_runs_in_another_process() -> None:
    assert run(in_process(functions.double), task(number=21)) == 42


def test_object_with_an_async_call_runs_on_the_loop() -> None:
    class Greeter:
        async def __call__(self, name: str) -> str:
            return f"hello {name}"

    greeter = Handler(name="greet", function=Greeter())
    assert greeter.runs_in == "loop"
    assert run(greeter, task(name="you")) == "hello you"


def test_partial_and_bound_method_take_what_is_left() -> None:
    assert run(handler(partial(functions.double, 4)), task()) == 8
    assert run(handler("a-b".split), task(sep="-")) == ["a", "b"]


def test_builtin_that_tells_no_signature_is_called_all_the_same() -> None:
    assert run(handler(dict), task(a=1)) == {"a": 1}


# -- arguments


def both(first: int, second: int = 2, *, third: int) -> list[int]:
    return [first, second, third]


def test_arguments_are_passed_by_name() -> None:
    assert run(handler(both), task(third=3, first=1)) == [1, 2, 3]


def test_arguments_that_do_not_fit_are_refused_with_all_that_is_wrong() -> None:
    with pytest.raises(InvalidArguments) as caught:
        run(handler(both, name="orders.pay"), task("o-1", second=2, fourth=4, fifth=5))
    error = caught.value
    assert (error.handler, error.task_id) == ("orders.pay", "o-1")
    assert (error.missing, error.unexpected) == (["first", "third"], ["fourth", "fifth"])
    for word in ("orders.pay", "o-1", "missing 'first', 'third'", "unexpected 'fourth', 'fifth'"):
        assert word in str(error)
    assert isinstance(error, TypeError)


def test_nothing_runs_when_arguments_do_not_fit() -> None:
    calls: list[int] = []

    async def main() -> None:
        workers = Workers()
        with pytest.raises(InvalidArguments):
            await workers.run(handler(lambda number: calls.append(number + 1)), task(numbr=1))
        assert workers.free == 1000
        await workers.close()

    asyncio.run(main())
    assert calls == []


def test_parameter_that_has_no_name_to_a_caller_is_missing() -> None:
    def positional(number: int, /) -> int:
        return number

    with pytest.raises(InvalidArguments, match="missing 'number'; unexpected 'number'"):
        run(handler(positional), task(number=1))


def test_function_open_to_any_name_takes_any() -> None:
    def anything(**rest: int) -> dict[str, int]:
        return rest

    assert run(handler(anything), task(a=1, context=2)) == {"a": 1, "context": 2}


# -- context


def test_parameter_named_context_gets_it() -> None:
    assert run(handler(lambda context: context.occurrence_id), task("a")) == "a@7"


def test_parameter_annotated_so_gets_it() -> None:
    def annotated(me: TaskContext) -> str:
        return me.id

    def optional(me: TaskContext | None = None) -> str:
        return me.id if me else "nobody"

    def written(me: "TaskContext", _: "OrderedDict[str, int] | None" = None) -> str:
        return me.id  # the other annotation is known to type checkers only, so neither can be evaluated

    for function in (annotated, optional, written):
        assert run(handler(function), task("a")) == "a"


def test_argument_of_the_task_wins_over_the_context() -> None:
    assert run(handler(lambda context: context), task(context="mine")) == "mine"


def test_context_in_a_process_has_the_same_attributes() -> None:
    assert run(in_process(functions.tell_context), task("a")) == ["a", 0, "a@7", 7, {}, False]


def test_functions_see_the_context_variables_of_who_asked() -> None:
    who: ContextVar[str] = ContextVar("who")

    async def tell() -> str:
        return who.get()

    async def main() -> None:
        workers = Workers()
        who.set("caller")
        assert await workers.run(handler(who.get), task()) == "caller"
        assert await workers.run(handler(tell), task()) == "caller"
        await workers.close()

    asyncio.run(main())


# -- results


@EVERYWHERE
def test_result_comes_as_a_store_would_give_it_back(make: Callable[..., Handler]) -> None:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    assert run(make(lambda: {"a": (1, 2), "at": moment}), task()) == {"a": [1, 2], "at": "2026-01-01T00:00:00Z"}


@EVERYWHERE
def test_result_that_json_cannot_hold_fails_the_run(make: Callable[..., Handler]) -> None:
    with pytest.raises(InvalidResult, match=r"'t'.*object"):
        run(make(object), task())
    with pytest.raises(InvalidResult):
        run(make(lambda: {(1, 2): 3}), task())


def test_result_that_contains_itself_fails_the_run() -> None:
    def circle() -> list[Any]:
        around: list[Any] = []
        around.append(around)
        return around

    with pytest.raises(InvalidResult, match="100 levels deep"):
        run(handler(circle), task())


def test_result_that_has_no_end_as_json_fails_the_run() -> None:
    class Endless(dict[str, int]):
        def items(self) -> Any:
            return ((str(number), number) for number in count())

    def doubled() -> list[Any]:
        value: list[Any] = []
        for _ in range(60):
            value = [value, value]
        return value

    for endless in (doubled, Endless):
        with pytest.raises(ResultTooLarge) as caught:
            run(on_loop(endless), task())
        assert caught.value.size_bytes is None


def test_result_of_a_process_that_json_cannot_hold_fails_the_run() -> None:
    with pytest.raises(InvalidResult, match="return_lock") as caught:
        run(in_process(functions.return_lock), task())
    assert caught.value.task_id == "t"


@EVERYWHERE
def test_result_may_take_what_a_store_keeps_and_no_more(make: Callable[..., Handler]) -> None:
    most = 256 * 1024 - len('[,null]""')  # beside no error
    assert len(run(make(lambda: "x" * most), task())) == most
    with pytest.raises(ResultTooLarge):
        run(make(lambda: "x" * (most + 1)), task())


def test_result_of_a_process_may_take_no_more_either() -> None:
    with pytest.raises(ResultTooLarge) as caught:
        run(in_process(functions.return_much), task())
    assert caught.value.size_bytes == 256 * 1024 + 2


def test_plain_function_that_returns_a_coroutine_says_what_to_do() -> None:
    async def inner() -> None: ...

    with pytest.raises(InvalidResult, match=r"returned a coroutine that nobody awaits.*register an async") as caught:
        run(handler(lambda: inner()), task())  # noqa: PLW0108 - it is the point
    assert "has run" not in str(caught.value), "what is in the coroutine has not"


# -- what is raised


@EVERYWHERE
def test_what_the_function_raised_is_raised(make: Callable[..., Handler]) -> None:
    wrong = ValueError("wrong")

    def fail() -> None:
        raise wrong

    with pytest.raises(ValueError, match="wrong") as caught:
        run(make(fail), task())
    assert caught.value is wrong
    assert any(entry.name == "fail" for entry in caught.traceback)


@EVERYWHERE
@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, GeneratorExit, CancelledError])
def test_what_would_end_the_program_fails_the_run_only(make: Callable[..., Handler], kind: type[BaseException]) -> None:
    def fail() -> None:
        raise kind("far out")

    async def main() -> None:
        workers = Workers(threads=1)
        with pytest.raises(RunFailed, match=f"{kind.__name__}: far out") as caught:
            await workers.run(make(fail), task())
        assert type(caught.value.__cause__) is kind
        assert await workers.run(handler(lambda: "alive"), task()) == "alive"
        await workers.close()

    asyncio.run(main())


def test_end_of_an_iterator_fails_the_run_in_words() -> None:
    with pytest.raises(RunFailed, match="raised StopIteration"):
        run(handler(iter(()).__next__), task())


# -- what cannot be


def test_workers_have_bounds() -> None:
    for options in ({"threads": -1}, {"threads": 10**6}, {"processes": -1}, {"queue_max": 0}):
        with pytest.raises(InvalidWorkers, match=next(iter(options))):
            Workers(**options)


def test_handler_for_a_pool_that_is_not_there_is_refused() -> None:
    async def main() -> None:
        workers = Workers(threads=0, processes=0)
        with pytest.raises(InvalidWorkers, match="process"):
            await workers.run(in_process(functions.double), task(number=1))
        with pytest.raises(InvalidWorkers, match="thread"):
            await workers.run(handler(functions.double), task(number=1))
        await workers.close()

    asyncio.run(main())


def test_function_without_a_name_cannot_run_in_a_process() -> None:
    hidden: Callable[..., Any] = lambda: 1  # noqa: E731
    with pytest.raises(UnnamedHandler, match="top of a module"):
        run(in_process(hidden), task())
    with pytest.raises(UnnamedHandler):
        run(in_process(partial(functions.double, 1)), task())


def test_one_task_runs_once_at_a_time() -> None:
    async def main() -> None:
        workers = Workers()
        go = asyncio.Event()
        first = asyncio.create_task(workers.run(handler(go.wait), task("a")))
        await asyncio.sleep(0)
        with pytest.raises(TaskRunning):
            await workers.run(handler(go.wait), task("a"))
        go.set()
        assert await first is True
        assert await workers.run(handler(go.wait), task("a")) is True
        await workers.close()

    asyncio.run(main())


def test_workers_serve_one_loop() -> None:
    workers = Workers()
    asyncio.run(workers.run(handler(lambda: 1), task()))
    with pytest.raises(ForeignWorkers):
        asyncio.run(workers.run(handler(lambda: 1), task()))
    with pytest.raises(ForeignWorkers):
        asyncio.run(workers.close())


def test_threads_of_workers_that_were_dropped_end() -> None:
    def run_and_drop() -> set[Thread]:
        before = set(enumerate_threads())
        asyncio.run(Workers().run(handler(lambda: 1), task()))
        return set(enumerate_threads()) - before

    left = run_and_drop()
    gc.collect()
    for thread in left:
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


def test_frames_of_a_run_are_let_go() -> None:
    class Big:
        pass

    async def main() -> None:
        workers = Workers(threads=1)
        big = Big()
        before = sys.getrefcount(big)
        await workers.run(handler(lambda it: None if it else 1), task(it=big))
        await workers.run(handler(lambda: 1), task())
        assert sys.getrefcount(big) == before
        await workers.close()

    asyncio.run(main())
