"""What a durable task is: its record, when it is due, what to do when it fails or is late, and who runs it.

    record         the task, its runs and their states
    triggers       once, every, cron: when the next occurrence is; timezones for the last
    policies       retries and missed runs
    transitions/   what every verb, claim and outcome makes of a task: pure functions, used by all stores and the engine
    registry       handlers by name; context is what a handler sees of its run
    destinations   webhooks and queues, which are no functions
    fields         checks what users pass; explain says why a task is not running

Nothing here reads a clock, a store or a thread. Read record first, then transitions.
"""

from tickwheel.tasks.context import Flag, TaskContext
from tickwheel.tasks.destinations import Webhook
from tickwheel.tasks.policies import LatePolicy, RetryPolicy
from tickwheel.tasks.record import ENDED, LEGAL, LISTED, LastRun, Run, RunStatus, Status, Task, UnreadableTask
from tickwheel.tasks.registry import Handler, PoolChoice, PoolName, Registry
from tickwheel.tasks.triggers import Cron, Every, Occurrence, Once, Trigger, preview

__all__ = [
    "ENDED",
    "LEGAL",
    "LISTED",
    "Cron",
    "Every",
    "Flag",
    "Handler",
    "LastRun",
    "LatePolicy",
    "Occurrence",
    "Once",
    "PoolChoice",
    "PoolName",
    "Registry",
    "RetryPolicy",
    "Run",
    "RunStatus",
    "Status",
    "Task",
    "TaskContext",
    "Trigger",
    "UnreadableTask",
    "Webhook",
    "preview",
]
