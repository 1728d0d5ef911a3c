"""A reference model of durable tasks: what every verb and outcome makes of one task, written down once more.

It shares no code with `tickwheel.tasks.transitions`: a task here is a handful of mutable fields, a grid is counted from
its origin, and history is a list of words. `check_against_reference` in `promises` compares it with a store.

    >>> series = Modelled(origin=100, interval_ms=10)
    >>> series.run_now(now=93), series.due_at
    (True, 93)
    >>> series.claim(until=93)
    True
    >>> series.end("completed", now=94), series.due_at, series.runs
    (None, 100, 0)
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from tickwheel.errors import DuplicateTask, InvalidTask, TaskRunning, TickwheelError

__all__ = ["Modelled", "add"]

State = Literal["pending", "running", "completed", "failed", "cancelled"]
SKIPPED_MAX = 100  # that the history keeps of one outcome
FINISHED = ("completed", "failed", "cancelled")
GRACE_MS = 60_000  # how late an occurrence may be before it was missed; half the period, if that is shorter
STEP_MS = 1_000  # a clock that changes by more was set; that is noticed about so much later
LATER_MS = 500  # before a correction that was decided is written


def add(
    there: "Modelled | None", new: "Modelled", on_conflict: str
) -> "tuple[Modelled | None, type[TickwheelError] | None]":
    """Add a task where one may be already; return what is there then, and why the new one was refused, if it was."""
    if on_conflict == "debounce" and (new.interval_ms is not None or (there is not None and there.keeps_its_series)):
        return there, InvalidTask
    if there is None or there.state in ("failed", "cancelled"):
        new.history = [] if there is None else there.history
        return new, None
    if on_conflict == "reject":
        return there, DuplicateTask
    if on_conflict == "keep":
        return there, None
    if on_conflict == "debounce" and there.state != "completed":
        return there, None if there.debounce(new) else InvalidTask
    replaced = there.replace(new)
    return replaced or there, None if replaced else TaskRunning


@dataclass
class Modelled:
    """One task, recurring if it has an interval."""

    origin: int
    interval_ms: int | None = None
    times: int = -1
    retries: int = 0
    max_crashes: int = 3
    at_most_once: bool = False
    overlap: str = "skip"
    missed: str = "run_once"
    catch_up: int = 100
    expires_at: int | None = None
    by_calendar: bool = False  # a cron expression: its grid is the same for all, and `origin` one of its points
    handler: str = "orders.cancel"
    args: dict[str, Any] = field(default_factory=dict)
    at_moment: bool = False  # its next run was given a moment of its own, and does not follow from the interval
    after_moment: bool = False  # that was the run before: the next one is far for that, or since the clock was set back

    state: State = "pending"
    paused: bool = False
    forced: bool = False  # by run_now, and not made yet
    due_at: int = -1
    occurrence_at: int = -1
    back_at: int | None = None  # when it is due after the run of run_now
    tried_at: int | None = None  # when it was to be tried again, before a run_now
    retried_at: int | None = None  # when a run that waits was asked for with retry
    point: int = -1  # of the grid, that the next regular run stands for
    missed_until: int = 0
    missed_at_claim: int = 0  # the same before the run: what its node finds out when it begins dies with it
    failures: int = 0
    crashes: int = 0
    snoozes: int = 0
    interrupted: bool = False
    runs: int = 0
    begun: int = 0  # how often the handler was called for the present occurrence
    asked_to_stop: Literal["", "task", "run"] = ""
    later: "tuple[str, dict[str, Any], Modelled | None] | None" = None  # how, arguments, and what it is replaced by
    later_times: int | None = None  # what a change of the running series makes of `times`
    history: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Wait for the first occurrence."""
        if self.due_at < 0:
            self.due_at = self.occurrence_at = self.point = self.origin
        if self.interval_ms is None:
            self.times = 1

    # -- what can be seen

    @property
    def listed(self) -> str:
        """What filters call its state."""
        return "paused" if self.state == "pending" and self.paused and not self.forced else self.state

    @property
    def keeps_its_series(self) -> bool:
        """Whether it recurs, and has not given up its id."""
        return self.interval_ms is not None and self.state not in ("failed", "cancelled")

    @property
    def by_interval(self) -> bool:
        """Whether it waits for a span of time, and not for the wall clock."""
        return self.interval_ms is not None and not self.by_calendar

    @property
    def active(self) -> bool:
        """Whether there was an attempt at the present occurrence."""
        return bool(self.failures or self.crashes or self.snoozes or self.interrupted)

    # -- the grid

    def after(self, moment: int) -> int:
        """Return the first point of the grid after a moment, counted from the origin."""
        assert self.interval_ms is not None
        return self.origin + ((moment - self.origin) // self.interval_ms + 1) * self.interval_ms

    @property
    def grace_ms(self) -> int:
        """How late the present occurrence may be before it was missed."""
        if self.interval_ms is None:
            return GRACE_MS
        period = self.after(self.occurrence_at) - self.occurrence_at if self.by_calendar else self.interval_ms
        return min(GRACE_MS, period // 2)

    def due_until(self, moment: int) -> list[int]:
        """List the occurrences from the present one to a moment."""
        points = [self.occurrence_at]
        while (point := self.after(max(points[-1], self.point))) <= moment:
            points.append(point)
        return points

    # -- verbs; each tells whether it changed anything, or None if it cannot be done

    def cancel(self, *, run_only: bool) -> bool:
        """Cancel it, or ask it to stop."""
        if self.state == "pending" and not run_only:
            self.state, self.paused, self.forced, self.later = "cancelled", False, False, None
            return True
        wanted: Literal["task", "run"] = "run" if run_only and self.interval_ms else "task"
        if self.state != "running":
            return False
        if self.asked_to_stop in ("task", wanted):  # again: what was debounced since then is discarded
            discards = wanted == "task" and self.later is not None
            self.later = None if discards else self.later
            return discards
        self.asked_to_stop = wanted
        if wanted == "task":
            self.later = None
        return True

    def pause(self) -> bool | None:
        """Set the flag; a run_now that has not begun is withdrawn."""
        if self.state in FINISHED:
            return None
        if self.paused and not (self.state == "pending" and self.forced):
            return False
        if self.state == "pending" and self.forced and self.back_at is not None and not self.active:
            self.due_at = self.occurrence_at = self.back_at
            self.back_at = None
        elif self.state == "pending" and self.forced and self.tried_at is not None:
            self.due_at = self.tried_at
        self.paused, self.forced, self.tried_at = True, False, None
        return True

    def resume(self, now: int, *, run_missed: bool) -> bool | None:
        """Clear the flag; a series goes on with the next point of its grid."""
        if self.state in FINISHED:
            return None
        if not self.paused:
            return False
        self.paused = False
        coming = self.due_at if self.back_at is None else self.back_at
        if self.state == "running" or self.interval_ms is None or self.active or coming > now:
            return True
        if run_missed:
            self.missed_until = now
            return True
        self.point = self.after(now)
        self.at_moment = False
        if self.back_at is None:
            self.due_at = self.occurrence_at = self.point
            self.missed_until = 0
        else:
            self.back_at = self.point
        return True

    def reschedule(self, moment: int) -> bool | None:
        """Move the next run; the grid stays."""
        if self.state != "pending":
            return None
        if self.active and self.forced:
            self.tried_at = moment
            return True
        self.at_moment, self.after_moment = True, False
        if self.active:
            self.due_at, self.occurrence_at, self.tried_at = moment, min(self.occurrence_at, moment), None
        elif self.back_at is not None or self.forced:
            self.back_at = moment
        else:
            self.due_at = self.occurrence_at = moment
            self.missed_until = 0
        return True

    def update(
        self,
        args: dict[str, Any],
        every: "tuple[int, int] | None" = None,
        times: int | None = None,
        moment: int | None = None,
    ) -> bool | None:
        """Change the arguments, and maybe the series: of a running one from its next occurrence on.

        A moment is for tasks that run once.
        """
        if self.state == "pending":
            self.args = args
            if moment is not None:
                self._move(moment)
            if every is not None:
                self._follow_grid(*every)
            if times is not None:
                self.times = times
            if self.later is not None:  # it waits for another attempt: both are changed
                self._change_later(args, every, times)
            is_replaced = self.later is not None and self.later[0] == "replace"
            if self.interval_ms is not None and 0 < self.times <= self.runs and not is_replaced:
                self.state, self.paused, self.forced, self.back_at, self.later = "completed", False, False, None, None
            return True
        if self.state != "running" or self.interval_ms is None or self.asked_to_stop == "task":
            return None
        self._change_later(args, every, times)
        return True

    def _move(self, moment: int) -> None:
        """Run once at another time; a run_now that has not begun is withdrawn, for it would be the only run."""
        assert self.interval_ms is None
        self.due_at = self.occurrence_at = moment
        self.back_at, self.forced = None, False
        self._begin_occurrence()
        if self.later is not None and self.later[2] is not None:
            self.later[2].origin = moment

    def _change_later(self, args: dict[str, Any], every: "tuple[int, int] | None", times: int | None) -> None:
        how, _, new = self.later or ("update", {}, None)
        if self.later is None:
            self.later_times = None
        if times is not None and how == "update":
            self.later_times = times
        elif times is not None and new is not None:
            new.times = times
        if every is not None and new is not None:
            if new.interval_ms is None and times is None:
                new.times = -1  # it comes again from now on
            new._follow_grid(*every)
        elif every is not None:
            new = Modelled(origin=every[1], interval_ms=every[0])
        self.later = (how, args, new)

    def _follow_grid(self, interval_ms: int, origin: int) -> None:
        """Go on by another grid, from its first point; a run_now is made all the same."""
        self.interval_ms, self.origin, self.by_calendar, self.point = interval_ms, origin, False, origin
        self.at_moment = False
        if self.back_at is not None and not self.active:
            self.back_at = origin
            return
        self.due_at = self.occurrence_at = origin
        self.back_at, self.forced = None, False
        self._begin_occurrence()

    def run_now(self, now: int) -> bool | None:
        """Make it due now, also if it is paused."""
        if self.state != "pending":
            return None
        if self.forced or (self.due_at <= now and not self.paused):
            return False
        if self.retried_at == self.due_at and not self.active and self.due_at > now + STEP_MS:
            self._retry_at(now)  # it was asked for by a clock that was ahead: this is that run
            if not self.paused:
                return True
        self.forced = True
        if self.active:
            self.due_at, self.tried_at = min(self.due_at, now), self.due_at
        elif self.interval_ms is not None or now < self.due_at:
            self.back_at = self.due_at
            self.due_at = self.occurrence_at = now
        return True

    def retry(self, now: int) -> bool | None:
        """Begin a finished task again."""
        if self.state not in FINISHED:
            return False
        self.state, self.paused, self.forced, self.asked_to_stop = "pending", False, False, ""
        self.back_at, self.missed_until = None, 0
        self._begin_occurrence()
        self._retry_at(now)
        if self.interval_ms is None:
            self.runs = 0
        else:
            self.runs = min(self.runs, self.times - 1) if self.times > 0 else self.runs
        return True

    def _retry_at(self, moment: int) -> None:
        """Make the run that `retry` asked for at a moment; the grid stays."""
        self.due_at = self.occurrence_at = self.retried_at = moment
        self.point = moment if self.interval_ms is None else self.after(moment) - self.interval_ms

    def debounce(self, new: "Modelled") -> bool:
        """Take new arguments and a new time, or keep them for one following run, also if this one is to stop."""
        if self.handler != new.handler:
            return False
        if self.state == "running" or self.later is not None:
            if new.expires_at is None:
                last = None if self.later is None else self.later[2]
                new.expires_at = (last or self).expires_at
            self.later = ("debounce", new.args, new)
            return True
        self.expires_at = self.expires_at if new.expires_at is None else new.expires_at
        self.args, self.back_at, self.forced = new.args, None, False
        self.due_at = self.occurrence_at = new.origin
        self._begin_occurrence()
        return True

    def replace(self, new: "Modelled") -> "Modelled | None":
        """Become another task: at once, or after the run of a series."""
        if self.state != "running":
            new.history = self.history
            return new
        if self.interval_ms is None or self.asked_to_stop == "task":
            return None
        self.later, self.paused = ("replace", new.args, new), False
        return self

    # -- a clock that is set back

    def set_back(self, due_at: int, now: int, back_at: int | None = None) -> bool:
        """Wait for other times, since these were chosen by a clock that was ahead; return whether they may be these."""
        if self.state != "pending":
            return False
        follows = back_at is not None and back_at != self.back_at
        retried = self.retried_at is not None and self.retried_at == self.back_at
        if follows and back_at is not None and retried:
            if not now - STEP_MS - LATER_MS <= back_at <= now:
                return False
        elif follows and not (self.back_at is not None and self._is_near(back_at, self.back_at, now - LATER_MS, now)):
            return False
        if not (follows and due_at == self.due_at) and not self._set_back_run(due_at, now):
            return False
        if follows and back_at is not None and retried:
            self.back_at = self.retried_at = back_at
            self.point = back_at if self.interval_ms is None else self.after(back_at) - self.interval_ms
        elif follows and back_at is not None:
            self.back_at = self.point = back_at
        return True

    def _set_back_run(self, due_at: int, now: int) -> bool:
        """Wait for another time with the next run; return whether it may be this one."""
        if due_at >= self.due_at:
            return False
        if self.active or self.forced:
            by_clock = not (self.forced or self.by_interval)
            if by_clock and due_at < self.occurrence_at:
                return False
            self.due_at = due_at
            return True
        if self.retried_at == self.due_at:
            self._retry_at(due_at)
            return now - STEP_MS - LATER_MS <= due_at <= now
        if not self._is_near(due_at, self.due_at, now - STEP_MS - LATER_MS, now):
            return False
        self.due_at = self.occurrence_at = self.point = due_at
        self.missed_until = 0
        return True

    def _is_near(self, point: int | None, instead_of: int, earliest: int, now: int) -> bool:
        """Tell whether a series may go on with a point of its grid, instead of one that is too far."""
        if point is None or self.interval_ms is None or not self.by_interval:
            return False
        if self.at_moment and not self.after_moment:
            return False
        near = earliest <= point <= now + self.interval_ms < instead_of
        return near and (point - self.origin) % self.interval_ms == 0

    def stalls(self, now: int, slack_ms: int) -> bool:
        """Tell whether it waits for a clock to show again what it showed before, and should not."""
        if self.listed != "pending" or self.active:
            return False
        if self.forced or self.retried_at == self.due_at:
            return self.due_at > now + slack_ms
        return self.by_interval and not self.at_moment and self._waits_longer(self.due_at - slack_ms, now)

    def _waits_longer(self, coming: int, now: int) -> bool:
        """Tell whether an occurrence is farther than an interval from now."""
        return self.interval_ms is not None and coming > now + self.interval_ms

    def _was_ahead(self, coming: int, now: int) -> bool:
        """Tell whether the clock was set back during a run: what comes after it was chosen before that."""
        if not self.by_interval or (self.back_at is not None and self.at_moment):
            return False
        return self.occurrence_at > now + STEP_MS and self._waits_longer(coming, now)

    # -- runs

    def claim(self, until: int) -> bool:
        """Begin it, if it waits and is due."""
        if self.listed != "pending" or self.due_at > until:
            return False
        self.state, self.missed_at_claim = "running", self.missed_until
        return True

    def begin(self, now: int, owned_since: int = 0) -> "tuple[str, Modelled | None]":
        """Call its handler, unless it has expired or was missed; return which, and what takes its place."""
        if self.expires_at is not None and now > self.expires_at:
            return "expired", self._expire(now)
        missed_until = max(owned_since, self.missed_until)
        if self.active or self.forced or self.occurrence_at + self.grace_ms >= missed_until:
            pass
        elif self.missed == "skip" and self.interval_ms is None:
            return "skipped", self.end("cancelled", now, "skipped")
        elif self.missed == "skip":
            grace_ms = self.grace_ms
            return "skipped", self._pass_over(lambda point: point + grace_ms >= missed_until, now, 0)
        elif self.interval_ms is not None:
            wanted = self.due_until(missed_until)[-self.catch_up :]
            if self.missed == "run_all" and self.occurrence_at not in wanted:
                return "skipped", self._pass_over(lambda point: point >= wanted[0], now, missed_until)
            self.missed_until = missed_until
        self.begun += 1
        return "begun", None

    def _expire(self, now: int) -> "Modelled | None":
        """End the task without a run, unless it was changed meanwhile."""
        if not self.asked_to_stop and self.later is None:
            self.state, self.paused, self.forced, self.back_at = "cancelled", False, False, None
            return None
        return self.end("cancelled", now, None)

    def _pass_over(self, is_wanted: Callable[[int], bool], now: int, missed_until: int) -> "Modelled | None":
        """Skip missed occurrences until one that is wanted."""
        if self.asked_to_stop == "task" or self.later is not None:
            return self.end("cancelled", now, "skipped")
        passed, point = [self.occurrence_at], self.after(max(self.occurrence_at, self.point))
        while not is_wanted(point):
            passed.append(point)
            point = self.after(point)
        self.history += ["skipped"] * min(len(passed), 1 + SKIPPED_MAX)
        self.asked_to_stop = ""
        self.state, self.due_at, self.occurrence_at, self.point = "pending", point, point, point
        self.missed_until = missed_until
        self.at_moment = self.after_moment = self.at_moment and self._waits_longer(point, now)
        return None

    def fail_for_good(self, now: int) -> "Modelled | None":
        """End a run that raised and is not to be tried again."""
        self.failures += 1
        return self.end("failed", now)

    def fail(self, now: int, wait_ms: int) -> "Modelled | None":
        """End a run that raised."""
        self.failures += 1
        if self.at_most_once or self.failures > self.retries:
            return self.end("failed", now)
        return self._again("failed", now, now + wait_ms)

    def snooze(self, now: int, delay_ms: int) -> "Modelled | None":
        """End a run that asked to run later."""
        if self.at_most_once:
            self.failures += 1
            return self.end("failed", now)
        self.snoozes += 1
        return self._again("snoozed", now, now + delay_ms)

    def crash(self, now: int, wait_ms: int) -> "Modelled | None":
        """End a run whose process died."""
        self.crashes += 1
        self.missed_until = self.missed_at_claim
        if self.at_most_once or self.crashes >= self.max_crashes:
            return self.end("failed", now)
        return self._again("failed", now, now + wait_ms)

    def interrupt(self, now: int) -> "Modelled | None":
        """End a run that was stopped with its scheduler."""
        if self.at_most_once:
            return self.end("failed", now)
        self.interrupted = True
        return self._again("cancelled", now, now)

    def stop(self, now: int) -> "Modelled | None":
        """End a run that was asked to stop."""
        return self.end("cancelled", now)

    def release(self, now: int) -> "Modelled | None":
        """Give up a claim before the run began; what was asked to stop meanwhile does not begin."""
        if self.asked_to_stop:
            return self.end("cancelled", now, None)
        self.state = "pending"
        return None

    def _again(self, word: str, now: int, due_at: int) -> "Modelled | None":
        if self.asked_to_stop:
            return self.end("cancelled", now, word)
        self.history.append(word)
        self.tried_at = None
        self.state, self.due_at = "pending", due_at if self.by_interval else max(due_at, self.occurrence_at)
        self.forced = self.forced and self.interrupted and word == "cancelled"
        return None

    def end(self, result: State, now: int, word: str | None = "") -> "Modelled | None":
        """End an occurrence; returns what takes the place of the task, if it is another one from now on."""
        if word is not None:
            self.history.append(word or result)
        asked, self.asked_to_stop = self.asked_to_stop, ""
        if asked and result != "completed":
            result = "cancelled"
        if self.later is not None:
            return self._take_over(result, now)
        if asked == "task" and not self._is_last:
            result = "cancelled"
        self.forced = False
        extra = self.back_at is not None
        if asked == "task" or self._is_last:
            self.runs += asked != "task" and (self.interval_ms is None or not extra)
            self.state, self.paused = result, False
            self.back_at = None
            return None
        self._go_on(now)
        return None

    @property
    def _is_last(self) -> bool:
        return self.interval_ms is None or 0 < self.times <= self.runs + (self.back_at is None)

    def _go_on(self, now: int) -> None:
        self.runs += self.back_at is None
        coming = self.after(max(self.point, self.occurrence_at)) if self.back_at is None else self.back_at
        if self._was_ahead(coming, now):
            coming, self.back_at = self.after(now), None
        if self.by_interval and self.missed_until > now + STEP_MS:
            self.missed_until = 0
        catches_up = self.missed == "run_all" and coming <= self.missed_until
        if coming <= now and not catches_up:
            skipped, point = [coming], self.after(max(coming, self.point))
            while point <= now:
                skipped.append(point)
                point = self.after(point)
            coming = point
            if self.overlap == "queue_one" and skipped[-1] > self.missed_until:
                coming = skipped.pop()
            self.history += ["skipped"] * min(len(skipped), SKIPPED_MAX)
        if coming != self.back_at:
            # After one that was made earlier; if it is far because the clock was set back, nobody asked for that.
            self.point = coming
            self.at_moment = self.after_moment = self.at_moment and self._waits_longer(coming, now)
        self.state, self.due_at, self.occurrence_at, self.back_at = "pending", coming, coming, None
        if coming > self.missed_until:
            self.missed_until = 0
        self._begin_occurrence()

    def _take_over(self, result: State, now: int) -> "Modelled | None":
        assert self.later is not None
        (how, args, new), self.later = self.later, None
        if how == "replace":
            assert new is not None
            new.history, new.paused, new.args = self.history, self.paused, args
            return new
        self.args = args
        if how == "update":
            self.forced = False
            self.times = self.times if self.later_times is None else self.later_times
            if self._is_last:
                self.runs += self.back_at is None
                self.state, self.paused, self.back_at = result, False, None
            elif new is None:
                self._go_on(now)
            else:
                assert new.interval_ms is not None
                self.runs += self.back_at is None
                self.state, self.back_at = "pending", None
                self._follow_grid(new.interval_ms, new.origin)
            return None
        assert new is not None
        self.state, self.forced, self.back_at, self.runs = "pending", False, None, 0
        self.due_at = self.occurrence_at = new.origin
        self.expires_at = new.expires_at
        self._begin_occurrence()
        return None

    def _begin_occurrence(self) -> None:
        self.failures = self.crashes = self.snoozes = 0
        self.interrupted = False
        self.tried_at = self.retried_at = None
        self.begun = 0
