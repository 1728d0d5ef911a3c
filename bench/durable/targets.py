"""What the project promises about durable tasks, and whether this run bears it out.

A target compares one median with another, or takes it as it is, and holds the result against a bound:

    add_many:   tickwheel 43,000 a second / APScheduler 3 900 a second = 47.8, at least 50: missed
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median

from bench.durable.samples import SAMPLES
from bench.verdict import Verdict

__all__ = ["TARGETS", "TARGETS_OF", "Key", "Target", "judge"]

Key = tuple[str, str]  # the name of a sample, and which of its figures
Medians = Callable[[Key], float | None]


@dataclass(frozen=True, slots=True)
class Target:
    """A promise, or an aim: `over` against the greatest of `under` keeps to a bound."""

    promise: str
    over: Key
    relation: str  # ">=" or "<="
    bound: float
    under: tuple[Key, ...] = ()
    less: bool = False  # whether `under` is taken away, and not divided by
    aim: bool = False  # what we are after, and do not promise

    def value(self, medians: Medians) -> float | None:
        """Return what was measured; None if something is missing."""
        over = medians(self.over)
        if over is None or not self.under:
            return over
        known = [figure for figure in map(medians, self.under) if figure is not None]
        if len(known) < len(self.under):
            return None
        if self.less:
            return over - max(known)
        return over / max(known) if max(known) else None

    def holds(self, value: float) -> bool:
        """Hold a value against the bound."""
        return value <= self.bound if self.relation == "<=" else value >= self.bound


def _faster(what: str, bound: float, *others: str) -> Target:
    name = others[0].partition(" on ")[0]
    promise = f"{what}: tickwheel, times as fast as {name}"
    under = tuple((f"{what}, {other}", "per_s") for other in others)
    return Target(promise, (f"{what}, tickwheel", "per_s"), ">=", bound, under)


def _flat(figure: str) -> Target:
    promise = f"far: {figure.removesuffix('_us')} among many, against among few"
    return Target(promise, ("far, many", figure), "<=", 1.5, (("far, few", figure),))


def _late(rate: str, figure: str, bound_ms: float) -> Target:
    percent = {"p50_ms": "50 %", "p99_ms": "99 %"}[figure]
    return Target(
        f"lateness: {percent} of {rate} a second, in ms",
        (f"lateness, {rate} a second", figure),
        "<=",
        bound_ms,
        aim=True,
    )


RATES = ("1,000", "5,000")

TARGETS = (
    _faster("add_many", 0.4, "bare apsw"),
    _faster("add_many", 50, "APScheduler 3"),
    _faster("add_many", 10, "huey"),
    Target(
        "group_commit: adds a second of 64 callers, against one",
        ("add, 64 callers", "per_s"), ">=", 5, (("add, 1 caller", "per_s"),),
    ),
    Target("fire: tickwheel, tasks a second", ("fire, tickwheel", "per_s"), ">=", 12_000),
    _faster("fire", 20, "APScheduler 3 on the loop", "APScheduler 3 on threads"),
    Target("far: start-up among many, in s", ("far, many", "start_s"), "<=", 2),
    Target(
        "far: memory among many, more than with none, in MB",
        ("far, many", "memory_mb"), "<=", 60, (("far, none", "memory_mb"),), less=True,
    ),
    *(_flat(figure) for figure in ("add_us", "cancel_us", "list_us")),
    *(
        target
        for rate in RATES
        for target in (
            _late(rate, "p50_ms", 1),
            _late(rate, "p99_ms", 5),
            Target(f"lateness: early of {rate} a second", (f"lateness, {rate} a second", "early"), "<=", 0),
        )
    ),
)  # fmt: skip


ETCD_TARGETS = (
    Target(
        "group_commit: adds a second of 64 callers, against one",
        ("add, 64 callers", "per_s"), ">=", 4, (("add, 1 caller", "per_s"),),
    ),
    Target("fire: tickwheel, tasks a second", ("fire, tickwheel", "per_s"), ">=", 3_000),
    Target("lateness: early of 1,000 a second", ("lateness, 1,000 a second", "early"), "<=", 0),
)  # fmt: skip


def _on_a_server(add_many: int) -> tuple[Target, ...]:
    """Return what is promised on a server: so many batched adds a second, and the rest alike."""
    return (
        Target("add_many: tickwheel, tasks a second", ("add_many, tickwheel", "per_s"), ">=", add_many),
        Target(
            "group_commit: adds a second of 64 callers, against one",
            ("add, 64 callers", "per_s"), ">=", 4, (("add, 1 caller", "per_s"),),
        ),
        Target("fire: tickwheel, tasks a second", ("fire, tickwheel", "per_s"), ">=", 15_000),
        _late("5,000", "p50_ms", 2),
        _late("5,000", "p99_ms", 20),
        *(
            Target(f"lateness: early of {rate} a second", (f"lateness, {rate} a second", "early"), "<=", 0)
            for rate in RATES
        ),
    )  # fmt: skip


TARGETS_OF = {
    "sqlite": TARGETS,
    "postgres": (*_on_a_server(40_000), _faster("fire", 30, "procrastinate")),
    "redis": (*_on_a_server(60_000), _faster("fire", 10, "arq")),
    "etcd": ETCD_TARGETS,
}
assert all(
    key[0] in SAMPLES for targets in TARGETS_OF.values() for target in targets for key in (target.over, *target.under)
)


def judge(samples: Mapping[Key, list[float]], store: str = "sqlite") -> list[Verdict[Target]]:
    """Work out every target from the medians of a run; how many were early is counted over all of it."""

    def medians(key: Key) -> float | None:
        taken = samples.get(key)
        if not taken:
            return None
        return sum(taken) if key[1] == "early" else median(taken)

    return [Verdict(target, target.value(medians)) for target in TARGETS_OF[store]]
