"""What a type checker says of the verbs: `make types` fails if it accepts a marked line, or refuses another."""

from tickwheel import IdleTimeouts, ManualTimers, TimerHandle


def bill(order: int, currency: str) -> None:
    """Take two arguments."""


async def poll(host: str) -> None:
    """Take one."""


def test_callbacks_are_checked_against_their_arguments() -> None:
    timers = ManualTimers(job=print)
    handle: TimerHandle = timers.after(1, bill, 7, "EUR")
    assert handle.args == (7, "EUR")
    timers.every("1s", poll, "localhost")
    timers.after(1, key="order 7")
    timers.after(1, bill, "EUR", 7)  # type: ignore[arg-type]
    timers.after(1, bill, 7)  # type: ignore[arg-type]
    timers.every(1, poll, 8080)  # type: ignore[arg-type]
    timers.stop()


def test_idle_timeouts_know_their_key() -> None:
    timeouts = IdleTimeouts[int](ManualTimers())
    timeouts.watch(7, "30s", print)
    timeouts.watch("seven", "30s", print)  # type: ignore[call-overload]
    assert timeouts.touch(7)
