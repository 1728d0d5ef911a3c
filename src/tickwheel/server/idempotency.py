"""The same request twice is one: what was answered under an `Idempotency-Key` is answered again.

    POST /v1/tasks   Idempotency-Key: 7f3a      201, and the task
    POST /v1/tasks   Idempotency-Key: 7f3a      201, the same answer, `idempotency-replayed: true`; nothing is added
    ... with another body                       422
    ... while the first is not answered yet     409

Answers are kept for a day, in this process. What is added under a key is known again for longer, after a crash and by
other servers on the same store: a task without an id gets one that is made of its key, and carries a fingerprint of its
request. An answer that says what is wrong is not kept, because nothing was done.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple

import msgspec
from litestar import Request

from tickwheel.clock import Clock
from tickwheel.server.answers import Answer
from tickwheel.server.problems import Problem
from tickwheel.server.tokens import Holder
from tickwheel.tasks import Task

__all__ = ["REPLAYED", "Idempotency", "Mark"]

KEEP_S: Final = 86_400
KEY_CHARS_MAX: Final = 255
BYTES_MAX: Final = 64 * 2**20  # of all answers that are kept
META: Final = "tickwheel-request"
FAILED: Final = 400  # the first status that is a failure


class Mark(NamedTuple):
    """What a key leaves on tasks that are added under it."""

    key: str  # whose it is and which, as a hash
    fingerprint: str

    def put_on(self, wishes: dict[str, Any], place: int = 0) -> None:
        """Give a task an id that is the same whenever its request is sent, and what that request was."""
        wishes["id"] = f"{self.key}-{place}"
        wishes["meta"] = {**wishes.get("meta", {}), META: self.fingerprint}

    def check(self, there: Task) -> None:
        """Refuse a task that was added by another request under this key."""
        if there.meta.get(META) != self.fingerprint:
            raise reused()


class Kept(msgspec.Struct):
    """A request, and what was answered; None while it is not."""

    fingerprint: bytes
    ends_ns: int
    answer: Answer | None = None


Work = Callable[[Mark | None], Awaitable[Answer]]  # of a request; None if it has no key
REPLAYED: Final = {"idempotency-replayed": "true"}


class Idempotency:
    """Remembers answers by key; the oldest go when there are too many."""

    def __init__(self, keys_max: int, clock: Clock) -> None:
        self._keys_max = keys_max
        self._clock = clock
        self._kept: OrderedDict[tuple[str, str], Kept] = OrderedDict()
        self._bytes = 0

    async def once(self, request: Request[Holder | None, Any, Any], work: Work) -> Answer:
        """Do the work of a request, or answer as before to the same one."""
        key = request.headers.get("idempotency-key")
        if key is None:
            return await work(None)
        if not 1 <= len(key) <= KEY_CHARS_MAX:
            raise Problem(422, "invalid-idempotency-key", "Not a key", f"a key has 1 to {KEY_CHARS_MAX} characters")
        asked = f"{request.method} {request.scope.get('raw_path', b'')!r}\n".encode() + await request.body()
        fingerprint = hashlib.sha256(asked).digest()
        whose = "" if request.user is None else request.user.name, key
        kept = self._find(whose)
        if kept is None:
            return await self._do(whose, fingerprint, work)
        if kept.fingerprint != fingerprint:
            raise reused()
        if kept.answer is None:
            detail = "the first request with this key is not answered yet; try again"
            raise Problem(409, "request-in-flight", "It is being done", detail, headers={"retry-after": "1"})
        before = kept.answer
        return Answer(before.body, before.status, {**before.headers, **REPLAYED})

    async def _do(self, key: tuple[str, str], fingerprint: bytes, work: Work) -> Answer:
        entry = Kept(fingerprint, self._clock.monotonic_ns() + KEEP_S * 10**9)
        self._kept[key] = entry
        try:
            answer = await work(Mark(hashlib.sha256("\0".join(key).encode()).hexdigest()[:32], fingerprint.hex()[:32]))
        except BaseException:
            self._drop(key)
            raise
        if answer.status < FAILED:
            entry.answer = answer
            self._bytes += len(answer.body)
            self._make_room()
        else:
            self._drop(key)
        return answer

    def _find(self, key: tuple[str, str]) -> Kept | None:
        kept = self._kept.get(key)
        if kept is not None and self._clock.monotonic_ns() >= kept.ends_ns:
            self._drop(key)
            return None
        return kept

    def _make_room(self) -> None:
        while len(self._kept) > self._keys_max or self._bytes > BYTES_MAX:
            self._drop(next(iter(self._kept)))

    def _drop(self, key: tuple[str, str]) -> None:
        kept = self._kept.pop(key, None)
        if kept is not None and kept.answer is not None:
            self._bytes -= len(kept.answer.body)


def reused() -> Problem:
    """Say that a key was used before."""
    detail = "this key belongs to another request; use a new key"
    return Problem(422, "idempotency-key-reused", "The key was used for something else", detail)
