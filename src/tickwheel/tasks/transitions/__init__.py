"""What becomes of a task: every verb, claim and outcome as a function that only computes.

    series     where a recurring task goes on: its grid, overlap and missed runs
    outcomes   what a run comes to: succeed, fail, snooze, crash, ...
    clock      what a step of the wall clock changes
    claims     the owner's steps: claim, move, and finish, which merges an outcome with what others changed meanwhile
    verbs      what anyone may do: add, cancel, pause, resume, reschedule, update, run_now, retry

Moments and random numbers are passed in, and stores do the writing. All stores and the engine use these functions.

>>> from tickwheel.tasks.record import Task
>>> task = Task(id="a", handler="h", run_at=1000, occurrence_at=1000, created_at=0)
>>> running = claim(task, now=1003)
>>> running.status.value, running.attempt, running.started_at, running.version
('running', 1, 1003, 1)
>>> cancel(running, "not needed", now=1004).cancel_requested
True
>>> ended = succeed(running, "tea", now=1010)
>>> ended.task.status.value, ended.run.status.value
('completed', 'completed')
"""

from tickwheel.tasks.transitions.claims import (
    claim,
    conclude,
    depends_on_stored,
    finish,
    may_claim,
    may_finish,
    may_move,
    move,
    unclaimed,
    was_merged,
)
from tickwheel.tasks.transitions.clock import STEP_MS, set_back, set_back_since_claim
from tickwheel.tasks.transitions.outcomes import (
    Ended,
    begin,
    crash,
    expire,
    fail,
    fail_for_good,
    has_expired,
    interrupt,
    release,
    skip_missed,
    snooze,
    stop,
    succeed,
)
from tickwheel.tasks.transitions.series import grace_ms, is_missed
from tickwheel.tasks.transitions.verbs import (
    FREE,
    add,
    cancel,
    check_debounce,
    check_waits,
    pause,
    reschedule,
    resume,
    retry,
    run_now,
    update,
)

__all__ = [
    "FREE",
    "STEP_MS",
    "Ended",
    "add",
    "begin",
    "cancel",
    "check_debounce",
    "check_waits",
    "claim",
    "conclude",
    "crash",
    "depends_on_stored",
    "expire",
    "fail",
    "fail_for_good",
    "finish",
    "grace_ms",
    "has_expired",
    "interrupt",
    "is_missed",
    "may_claim",
    "may_finish",
    "may_move",
    "move",
    "pause",
    "release",
    "reschedule",
    "resume",
    "retry",
    "run_now",
    "set_back",
    "set_back_since_claim",
    "skip_missed",
    "snooze",
    "stop",
    "succeed",
    "unclaimed",
    "update",
    "was_merged",
]
