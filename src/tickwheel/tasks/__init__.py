"""What a durable task is: its record, when it is due, what to do when it fails or is late, and who runs it."""

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
