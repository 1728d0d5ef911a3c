"""Whether a run bears a promise out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

__all__ = ["Verdict"]


class Promise(Protocol):
    """Something that is measured and has a bound."""

    def holds(self, value: float) -> bool:
        """Hold a value against the bound."""


P = TypeVar("P", bound=Promise)


@dataclass(frozen=True, slots=True)
class Verdict(Generic[P]):
    """A promise and what was measured; no value if something is missing."""

    target: P
    value: float | None

    @property
    def outcome(self) -> str:
        """`met`, `missed` or `not measured`."""
        if self.value is None:
            return "not measured"
        return "met" if self.target.holds(self.value) else "missed"
