"""Handlers are found by name, and what could not be found again is refused."""

import math
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tickwheel.errors import DuplicateHandler, InvalidTask, UnknownHandler, UnnamedHandler
from tickwheel.scheduler import AsyncScheduler, Scheduler
from tickwheel.tasks import Handler, Registry, RetryPolicy


def pay(order: int) -> int:
    return order


async def ship(order: int) -> int:
    return order


class Shop:
    def open(self) -> str:
        return "open"

    @classmethod
    def found(cls) -> str:
        return cls.__name__


def test_function_is_registered_under_a_name_and_given_back() -> None:
    registry = Registry()
    assert registry.register("orders.pay", retry=RetryPolicy(retries=2), concurrency=3)(pay) is pay
    found = registry.find("orders.pay")
    assert (found.function, found.retry.retries, found.concurrency, found.timeout_ms) == (pay, 2, 3, 300_000)


@pytest.mark.parametrize("make", [lambda: Registry().register, lambda: Scheduler().task, lambda: AsyncScheduler().task])
def test_decorator_works_with_and_without_parentheses(make: Callable[[], Any]) -> None:
    for parentheses in (False, True):
        task = make()
        assert (task() if parentheses else task)(ship) is ship
        owner = task.__self__
        registry = owner if isinstance(owner, Registry) else owner._registry
        assert registry.find(f"{__name__}:ship").function is ship


def test_function_is_registered_under_its_own_name_unless_told() -> None:
    registry = Registry()
    registry.register()(pay)
    registry.register("")(ship)
    registry.register()(Shop.found)
    registry.register()(math.sqrt)
    own = f"{__name__}:"
    assert registry.names() == sorted(["math:sqrt", f"{own}Shop.found", f"{own}pay", f"{own}ship"])


@pytest.mark.parametrize("wrong", ["orders.cancle", "orders.cancel ", "order.cancel"])
def test_misspelt_name_gets_a_suggestion(wrong: str) -> None:
    registry = Registry()
    registry.register("orders.cancel")(pay)
    with pytest.raises(UnknownHandler, match=r"did you mean 'orders\.cancel'\?") as caught:
        registry.find(wrong)
    assert isinstance(caught.value, LookupError)


def test_name_like_no_other_gets_told_what_to_do() -> None:
    with pytest.raises(UnknownHandler, match=r"register it with @scheduler\.task"):
        Registry().find("orders.cancel")


def nameless() -> list[Callable[..., Any]]:
    def inner() -> None: ...

    return [lambda: 1, inner, partial(pay, 1), Shop().open, "text".upper]


@pytest.mark.parametrize("function", nameless(), ids=["lambda", "closure", "partial", "method", "builtin method"])
def test_what_has_no_lasting_name_is_refused_when_lasting(function: Callable[..., Any]) -> None:
    registry = Registry()
    with pytest.raises(UnnamedHandler, match="top of a module"):
        registry.name_of(function)
    for name in (None, ""):
        with pytest.raises(UnnamedHandler):
            registry.register(name)(function)
    assert registry.names() == []
    registry.register("given")(function)  # who gives it a name will give it again after a restart
    assert registry.name_of(function) == "given"


@pytest.mark.parametrize("function", nameless(), ids=["lambda", "closure", "partial", "method", "builtin method"])
def test_anything_that_can_be_called_will_do_when_not_lasting(function: Callable[..., Any]) -> None:
    registry = Registry(lasting=False)
    assert registry.find(registry.name_of(function)).function == function


def test_method_is_known_each_time_it_is_looked_up() -> None:
    """A regression: a bound method is another object each time, and was taken for another function."""
    registry, shop = Registry(lasting=False), Shop()
    assert registry.name_of(shop.open) == registry.name_of(shop.open)
    registry.register("shop.open")(shop.open)
    registry.register("shop.open")(shop.open)
    with pytest.raises(DuplicateHandler):
        registry.register("shop.open")(Shop().open)


def test_function_may_come_twice_but_no_other_under_its_name() -> None:
    registry = Registry()
    registry.register("a")(pay)
    registry.register("a", timeout_ms=5)(pay)
    assert registry.find("a").timeout_ms == 5
    with pytest.raises(DuplicateHandler):
        registry.register("a")(ship)
    assert registry.find("a").function is pay


def test_name_of_registers_what_is_not() -> None:
    registry = Registry()
    assert registry.find(registry.name_of(pay)).function is pay
    assert len(registry.names()) == 1


# -- handlers


def test_handler_chooses_its_pool() -> None:
    assert Handler(name="a", function=pay).runs_in == "thread"
    assert Handler(name="a", function=ship).runs_in == "loop"
    assert Handler(name="a", function=partial(ship, 1)).runs_in == "loop"
    assert Handler(name="a", function=pay, pool="process").runs_in == "process"


@pytest.mark.parametrize(
    "wrong",
    [
        {"function": None},
        {"function": "pay"},
        {"function": pay, "timeout_ms": 0},
        {"function": pay, "concurrency": 0},
        {"function": pay, "pool": "gpu"},
        {"function": pay, "pool": "loop"},
        {"function": ship, "pool": "thread"},
        {"function": ship, "pool": "process"},
    ],
)
def test_handler_that_could_never_run_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidTask):
        Handler(name="a", **wrong)


def test_generator_functions_are_refused() -> None:
    def generator() -> Iterator[int]:
        yield 1

    async def async_generator() -> AsyncIterator[int]:
        yield 1

    for function in (generator, async_generator):
        with pytest.raises(InvalidTask, match="is a generator function"):
            Registry().register("h")(function)


@pytest.mark.parametrize("how", [["shop.py"], ["-m", "shop"], ["-c", "import shop"], ["-m", "cProfile", "shop.py"]])
def test_a_function_of_a_script_is_named_as_whoever_imports_it_does(tmp_path: Path, how: list[str]) -> None:
    (tmp_path / "shop.py").write_text(
        "from tickwheel.tasks import Registry\n"
        "registry = Registry()\n"
        "@registry.register\n"
        "def cancel_order() -> None: ...\n"
        "print(registry.names())\n",
        encoding="utf-8",
    )
    ran = subprocess.run([sys.executable, *how], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[0] == "['shop:cancel_order']"


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_a_function_of_a_script_has_the_same_name_in_processes_that_it_starts(tmp_path: Path, method: str) -> None:
    (tmp_path / "shop.py").write_text(
        "import multiprocessing\n"
        "from tickwheel.tasks import Registry\n"
        "def cancel_order() -> None:\n"
        "    print(Registry().name_of(cancel_order), flush=True)\n"
        "if __name__ == '__main__':\n"
        f"    process = multiprocessing.get_context('{method}').Process(target=cancel_order)\n"
        "    process.start(); process.join()\n",
        encoding="utf-8",
    )
    ran = subprocess.run([sys.executable, "shop.py"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert ran.stdout == "shop:cancel_order\n"


def test_a_name_without_its_module_is_answered_with_the_whole_name() -> None:
    registry = Registry()
    registry.register(pay)
    with pytest.raises(UnknownHandler, match=r"did you mean 'tests\.tasks\.test_registry:pay'"):
        registry.find("pay")
