"""What a wheel should do, said as plainly as possible: a sorted list.

Timers are known by number. Everything else is compared with this.
"""

from dataclasses import dataclass, field


@dataclass
class Oracle:
    """A sorted list of (due, order, number)."""

    now: int
    pending: list[tuple[int, int, int]] = field(default_factory=list)
    order: int = 0

    def start(self, number: int, delay: int) -> None:
        self.order += 1
        self.pending.append((self.now + max(delay, 1), self.order, number))
        self.pending.sort()

    def stop(self, number: int) -> bool:
        kept = [entry for entry in self.pending if entry[2] != number]
        was_pending = len(kept) < len(self.pending)
        self.pending = kept
        return was_pending

    def advance(self, to: int, limit: int) -> list[int]:
        due = [entry for entry in self.pending if entry[0] <= to][:limit]
        self.pending = self.pending[len(due) :]
        self.now = max(self.now, due[-1][0]) if len(due) == limit else to
        return [number for _, _, number in due]

    def due(self, number: int) -> int:
        return next(due for due, _, known in self.pending if known == number)

    def is_pending(self, number: int) -> bool:
        return any(known == number for _, _, known in self.pending)
