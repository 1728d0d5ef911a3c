"""A node that stops itself at a step: before or after it asks the store for something, or in the middle of a run.

    before:due   after:due   before:claim   after:claim   before:run   after:run   before:finish   after:finish
            load           >         claim          >           run            >            finish

Everything the store is asked goes through here as it is. When the step has come, what else is being asked is waited
for, so that nothing is half written, and then the whole process is suspended (SIGSTOP) until somebody lets it go on.
"""

import asyncio
import signal
from typing import Any, Final, Literal, NamedTuple, Self

from tests.scheduler.flaky import NOT_AWAITED
from tickwheel.stores import Store

__all__ = ["HALTS", "Halt", "HaltingStore"]


class Halt(NamedTuple):
    """Where to stop: at which turn of a step, before it or after it."""

    when: Literal["before", "after"]
    step: str
    turn: int = 1

    @classmethod
    def of(cls, text: str) -> Self:
        """Read `before:claim:3`."""
        when, step, turn = text.split(":")
        return cls("before" if when == "before" else "after", step, int(turn))

    def __str__(self) -> str:
        return f"{self.when}:{self.step}:{self.turn}"


STEPS: Final = ("due", "claim", "run", "finish")
HALTS: Final = [halt for step in STEPS for halt in (Halt("before", step), Halt("after", step))]


class HaltingStore:
    """Any store, asked by a process that is to stop at a step."""

    def __init__(self, store: Store, halt: Halt) -> None:
        self._store = store
        self._halt = halt
        self._armed = False
        self._turns = 0
        self._under_way = 0
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._open = asyncio.Event()
        self._open.set()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if name in NOT_AWAITED:
            return found

        async def call(*args: Any, **kwargs: Any) -> Any:
            await self.pass_by("before", name)
            await self._open.wait()
            self._under_way += 1
            self._quiet.clear()
            try:
                answer = await found(*args, **kwargs)
            finally:
                self._under_way -= 1
                if not self._under_way:
                    self._quiet.set()
            await self.pass_by("after", name)
            return answer

        return call

    def arm(self) -> None:
        """Count from now on."""
        self._armed = True

    async def pass_by(self, when: str, step: str) -> None:
        """Stop here, if this is the place."""
        if not self._armed or (when, step) != (self._halt.when, self._halt.step):
            return
        self._turns += 1
        if self._turns == self._halt.turn:
            self._open.clear()
            await self._quiet.wait()
            signal.raise_signal(signal.SIGSTOP)
            self._open.set()
