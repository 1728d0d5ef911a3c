"""Handlers by name: what a durable task calls, found again after a restart.

>>> registry = Registry()
>>> @registry.register("orders.cancel")
... def cancel_order(order_id: int) -> None: ...
>>> registry.find("orders.cancle")
Traceback (most recent call last):
tickwheel.errors.UnknownHandler: no handler 'orders.cancle' here; did you mean 'orders.cancel'?
"""

import sys
from collections.abc import Callable
from functools import lru_cache
from inspect import CO_ASYNC_GENERATOR, CO_GENERATOR, iscoroutinefunction
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, Literal, TypeVar, get_args, overload

import msgspec
from msgspec.structs import force_setattr

from tickwheel.errors import DuplicateHandler, InvalidTask, UnknownHandler, UnnamedHandler
from tickwheel.tasks.destinations import is_reserved
from tickwheel.tasks.fields import NAME_CHARS_MAX, SPAN_MS_MAX, choice, flag, invalid, text, whole
from tickwheel.tasks.policies import NEVER_AGAIN, RetryPolicy
from tickwheel.tasks.record import TIMEOUT_MS

__all__ = ["Handler", "PoolChoice", "PoolName", "Registry"]

PoolName = Literal["loop", "thread", "process"]
PoolChoice = Literal["auto", "thread", "process", "loop"]

F = TypeVar("F", bound=Callable[..., Any])

GENERATOR = CO_GENERATOR | CO_ASYNC_GENERATOR  # flags of functions whose call runs nothing of their body
MAIN = ("__main__", "__mp_main__")  # modules of a script: in itself, and in processes that it starts
CONCURRENCY_MAX = 1_000_000  # as many as workers take in


class Handler(msgspec.Struct, frozen=True, kw_only=True):
    """A function, and what its tasks are like unless they say otherwise."""

    name: str
    function: Any  # Callable[..., Any], plain or async
    retry: RetryPolicy = NEVER_AGAIN
    timeout_ms: int = TIMEOUT_MS
    concurrency: int | None = None  # how many of its runs there may be at once, in this process
    pool: PoolChoice = "auto"  # where it runs: async functions on the loop, plain ones on a thread by default
    takes_task: bool = False  # it is called with the whole task as `task`, rather than with its arguments
    runs_in: PoolName = "loop"  # the pool that "auto" stands for, or that was chosen; it is decided here

    def __post_init__(self) -> None:
        """Refuse what could never run."""
        force_setattr(self, "name", text("name", self.name, NAME_CHARS_MAX))
        if not callable(self.function):
            raise invalid("handler", self.function, "a function, or the name of one")
        if type(self.retry) is not RetryPolicy:
            raise invalid("retry", self.retry, "a RetryPolicy; retries=3 is short for RetryPolicy(retries=3)")
        force_setattr(self, "retry", self.retry.shared())
        force_setattr(self, "timeout_ms", whole("timeout_ms", self.timeout_ms, 1, SPAN_MS_MAX))
        if self.concurrency is not None:
            force_setattr(self, "concurrency", whole("concurrency", self.concurrency, 1, CONCURRENCY_MAX))
        force_setattr(self, "pool", choice("pool", self.pool, get_args(PoolChoice)))
        flag("takes_task", self.takes_task)
        if self.pool != "auto" and (self.pool == "loop") != is_async(self.function):
            raise InvalidTask(
                f"handler {self.name!r} cannot run in pool {self.pool!r}: async functions run on the loop, plain ones "
                "on a thread or in a process"
            )
        if type(self.function) is FunctionType and self.function.__code__.co_flags & GENERATOR:
            raise InvalidTask(
                f"handler {self.name!r} is a generator function: calling it makes a generator, and runs nothing of its "
                "body; remove the yield, or call it from a plain or async function"
            )
        if self.pool == "auto":
            force_setattr(self, "pool", "loop" if is_async(self.function) else "thread")
        force_setattr(self, "runs_in", self.pool)


@lru_cache(maxsize=4096)  # asked for every run; more functions than a program has handlers
def is_async(function: Callable[..., Any]) -> bool:
    """Tell whether calling a function makes a coroutine."""
    return iscoroutinefunction(function) or iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


class Registry:
    """The handlers of one process. `lasting` ones must be found by name in another process, too."""

    def __init__(self, *, lasting: bool = True) -> None:
        self._lasting = lasting
        self._handlers: dict[str, Handler] = {}
        self.on_new: Callable[[], None] | None = None  # called, on any thread, when there is another handler

    @overload
    def register(self, name: F, **options: Any) -> F: ...

    @overload
    def register(self, name: str | None = None, **options: Any) -> Callable[[F], F]: ...

    def register(self, name: F | str | None = None, **options: Any) -> F | Callable[[F], F]:
        """Register a function under a name, or under its own; as a decorator with and without parentheses."""
        if callable(name):
            return self.register(None, **options)(name)

        def keep(function: F) -> F:
            self.add(Handler(name=self._name(function, name), function=function, **options))
            return function

        return keep

    def add(self, handler: Handler) -> None:
        """Take a handler in; the same function may come twice, another under its name may not."""
        there = self._handlers.get(handler.name)
        if there is not None and there.function != handler.function:  # bound methods are made anew each time
            raise DuplicateHandler(handler.name)
        self._handlers[handler.name] = handler
        if there is None and self.on_new is not None:
            self.on_new()

    def _name(self, function: Callable[..., Any], name: str | None) -> str:
        name = self._own_name(function) if name in (None, "") else text("name", name, NAME_CHARS_MAX)
        if is_reserved(name):
            raise InvalidTask(f"no function can be called {name!r}: that is a way of delivery; give it another name")
        return name

    def _own_name(self, function: Callable[..., Any]) -> str:
        own: str = getattr(function, "__qualname__", "")
        # A method of an object is found by name only together with its object, which no other process has.
        bound = not isinstance(getattr(function, "__self__", None), (type, ModuleType, type(None)))
        if not own or "<" in own or bound:
            if self._lasting:
                raise UnnamedHandler(function)
            return f"{function!r}"
        return f"{_module_of(function)}:{own}"

    def get(self, name: str) -> Handler | None:
        """Return a handler by name; None if there is none."""
        return self._handlers.get(name)

    def find(self, name: str) -> Handler:
        """Return a handler by name."""
        handler = self._handlers.get(name)
        if handler is None:
            raise UnknownHandler(name, list(self._handlers))
        return handler

    def name_of(self, function: Callable[..., Any]) -> str:
        """Return the name of a registered function; one that is not registered yet is, under its own name."""
        for handler in self._handlers.values():
            if handler.function == function:
                return handler.name
        name = self._name(function, None)
        self.add(Handler(name=name, function=function))
        return name

    def __contains__(self, name: str) -> bool:
        return name in self._handlers

    def names(self) -> list[str]:
        """List the names there are."""
        return sorted(self._handlers)


def _module_of(function: Callable[..., Any]) -> str:
    """Return the name of a function's module; of a program that runs as a script, the one by which others import it.

    python shop.py                        adds a task for shop:cancel_order
    tickwheel worker shop:scheduler       runs it
    """
    if function.__module__ not in MAIN:
        return function.__module__
    main = getattr(function, "__globals__", None) or vars(sys.modules["__main__"])
    spec, file = main.get("__spec__"), str(main.get("__file__", "<stdin>"))
    if spec is not None and spec.name != "__main__":
        return str(spec.name)  # of `python -m shop`
    return "__main__" if file.startswith("<") else Path(file).stem
