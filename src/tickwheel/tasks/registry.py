"""Handlers by name: what a durable task calls, found again after a restart.

>>> registry = Registry()
>>> @registry.register("orders.cancel")
... def cancel_order(order_id: int) -> None: ...
>>> registry.find("orders.cancle")
Traceback (most recent call last):
tickwheel.errors.UnknownHandler: no handler 'orders.cancle' here; did you mean 'orders.cancel'?
"""

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from tickwheel.errors import DuplicateHandler, UnknownHandler, UnnamedHandler
from tickwheel.tasks.policies import RetryPolicy
from tickwheel.tasks.record import TIMEOUT_MS

__all__ = ["Handler", "Registry"]

F = TypeVar("F", bound=Callable[..., Any])


class Handler(msgspec.Struct, frozen=True, kw_only=True):
    """A function, and what its tasks are like unless they say otherwise."""

    name: str
    function: Any  # Callable[..., Any], plain or async
    retry: RetryPolicy = RetryPolicy()
    timeout_ms: int = TIMEOUT_MS
    concurrency: int | None = None  # how many of its runs there may be at once, in this process


class Registry:
    """The handlers of one process. `lasting` ones must be found by name in another process, too."""

    def __init__(self, *, lasting: bool = True) -> None:
        self._lasting = lasting
        self._handlers: dict[str, Handler] = {}

    def register(self, name: str | None = None, **options: Any) -> Callable[[F], F]:
        """Register a function under a name, or under its own."""

        def keep(function: F) -> F:
            self.add(Handler(name=self._name(function, name), function=function, **options))
            return function

        return keep

    def add(self, handler: Handler) -> None:
        """Take a handler in; the same function may come twice, another under its name may not."""
        there = self._handlers.get(handler.name)
        if there is not None and there.function is not handler.function:
            raise DuplicateHandler(handler.name)
        self._handlers[handler.name] = handler

    def _name(self, function: Callable[..., Any], name: str | None) -> str:
        own: str = getattr(function, "__qualname__", "")
        if name is None and (not own or "<" in own):
            if self._lasting:
                raise UnnamedHandler(function)
            return f"{function!r}"
        return name or f"{function.__module__}:{own}"

    def find(self, name: str) -> Handler:
        """Return a handler by name."""
        handler = self._handlers.get(name)
        if handler is None:
            raise UnknownHandler(name, list(self._handlers))
        return handler

    def name_of(self, function: Callable[..., Any]) -> str:
        """Return the name of a registered function; one that is not registered yet is, under its own name."""
        for handler in self._handlers.values():
            if handler.function is function:
                return handler.name
        name = self._name(function, None)
        self.add(Handler(name=name, function=function))
        return name

    def names(self) -> list[str]:
        """List the names there are."""
        return sorted(self._handlers)
