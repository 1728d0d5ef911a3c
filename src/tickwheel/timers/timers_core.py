"""The methods of all timers that are compiled, because they are called for every timer.

`AbstractTimers` is an ordinary class on top of this one: the registry refers to it weakly, and users may subclass it.
"""

from typing import Any, Final

from mypy_extensions import mypyc_attr

from tickwheel.durations import to_ns
from tickwheel.errors import InvalidOption, MissingCallback
from tickwheel.timers.handle import TimerHandle
from tickwheel.timers.registry import TimerRegistry

__all__ = ["TimersCore", "check_replace"]

CALLBACK_NOTE: Final = (
    "if you passed a callback, it was None: pass the function itself and its arguments, as in after(5, print, 'x'), "
    "not the result of a call, as in after(5, print('x'))"
)


@mypyc_attr(allow_interpreted_subclasses=True)
class TimersCore:
    """Starts, cancels and touches timers, untyped: `AbstractTimers` has the types."""

    def __init__(self, registry: TimerRegistry, job: Any) -> None:
        self._registry = registry
        self._job = job

    def after(
        self,
        delay: Any,
        callback: Any = None,
        *args: Any,
        key: Any = None,
        group: Any = None,
        replace: Any = False,
    ) -> TimerHandle:
        """Run a callback once, after a delay. Without a callback, run the default `job` with the key."""
        replaces = check_replace(replace, key)
        if callback is None:
            return self._registry.start(self._default_job(args), (key,), delay, key, group, replaces)
        return self._registry.start(callback, args, delay, key, group, replaces)

    def _default_job(self, args: tuple[Any, ...]) -> Any:
        if self._job is None or args:
            error = MissingCallback()
            error.add_note(CALLBACK_NOTE)
            raise error
        return self._job

    def cancel(self, handle_or_key: Any) -> bool:
        """Keep a timer from running again; False if there is none, or it is over."""
        return self._registry.cancel(handle_or_key)

    def touch(self, handle_or_key: Any, delay: Any = None) -> bool:
        """Restart the wait of a timer, with its first delay or another one; False if there is none, or it is over.

        A timer that is due and has not begun runs once, at the new deadline.
        """
        return self._registry.touch(handle_or_key, None if delay is None else to_ns(delay))


def check_replace(given: Any, key: Any) -> bool:
    """Return whether a timer replaces another; refuse what is no bool, interpreted as well as compiled."""
    if given is False:
        return False
    if given is not True:
        raise InvalidOption("replace", given, "True or False")
    if key is None:
        raise InvalidOption("replace", given, "False for a timer without a key, which cannot replace another")
    return True
