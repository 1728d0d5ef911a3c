"""`TimeoutMonitor`: what happens to work that is not done in time, though every process may die.

    rules = {"approve": TimeoutRule("3d", "escalate", target="boss", remind=("1d",))}
    monitor = TimeoutMonitor(engine, scheduler, rules)

    await monitor.monitor(item_id)                      # when the item comes up
    await monitor.complete(item_id, by="ann")           # it is done: its timeouts are cancelled

A timeout is a durable task. When it is due it asks the engine: an item that is not pending any more is left alone, and
for one that is, the rule of its node is applied, once: see `contract.py` for what makes it so after a crash. Deadlines
stand when an item is monitored; what is done when one passes is decided by the rule of that moment.
"""

from collections.abc import Mapping
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from tickwheel.durations import Duration, to_ns
from tickwheel.errors import Fail, InvalidSchedule, MissingRule, TaskRunning, UnknownWorkItem
from tickwheel.scheduler import AsyncScheduler
from tickwheel.tasks import RetryPolicy, Task, TaskContext
from tickwheel.workflow.contract import WorkflowEngine, WorkItem
from tickwheel.workflow.rules import REMINDERS_MAX, TimeoutRule

__all__ = ["PATIENT", "SYSTEM", "UNDER_WAY", "TimeoutMonitor"]

SYSTEM: Final = "system"  # who completes what is completed automatically
# An engine that is away is waited for: ten attempts in a quarter of an hour, one every ten minutes then, for a day.
PATIENT: Final = RetryPolicy(retries=150, first_ms=1_000, cap_ms=600_000)
# The task whose run we are in: it makes an end of much, but not of itself.
UNDER_WAY: Final[ContextVar[str]] = ContextVar("the task under way", default="")
PURGE_BATCH: Final = 500  # instances a call of the engine


class TimeoutMonitor:
    """The timeouts of one engine's work items. Make it before the scheduler is started: it brings handlers."""

    def __init__(
        self,
        engine: WorkflowEngine,
        scheduler: AsyncScheduler,
        rules: Mapping[str, TimeoutRule] | None = None,
        *,
        name: str = "workflow",
    ) -> None:
        self._engine = engine
        self._scheduler = scheduler
        self._name = name  # of its handlers and tasks: two engines on one scheduler have two
        self.rules = dict(rules or {})  # by node, or by "process/node"
        scheduler.task(f"{name}.timeout", retry=PATIENT)(self._time_out)
        scheduler.task(f"{name}.remind", retry=PATIENT)(self._remind)
        scheduler.task(f"{name}.start", retry=PATIENT)(self._start)
        scheduler.task(f"{name}.clean-up", retry=PATIENT)(self._clean_up)

    def rule_of(self, item: WorkItem) -> TimeoutRule | None:
        """Return the rule for an item's node in its process, or for nodes of that name; None if there is none."""
        return self.rules.get(f"{item.process}/{item.node}") or self.rules.get(item.node)

    # -- work items

    async def monitor(
        self,
        item: str | WorkItem,
        timeout: Duration | None = None,  # noqa: ASYNC109 - it is the item's
    ) -> Task | None:
        """Watch an item; None if it is over.

        A timeout that is said moves the deadline; without, it is the rule's, and to say so again changes nothing.
        """
        if not isinstance(item, WorkItem):
            item = await self._known(item)
        rule = self._rule_for(item)
        if item.state != "pending":
            return None
        wanted = self._timeouts(item, rule, rule.after if timeout is None else timeout)
        if timeout is None:
            [there] = await self._scheduler.get_many([wanted[0]["id"]])
            return there or (await self._scheduler.add_many(wanted, on_conflict="keep"))[0]
        await self.cancel(item.id, "its deadline was moved")  # and the reminders of it
        return (await self._scheduler.add_many(wanted, on_conflict="replace"))[0]

    async def cancel(self, item_id: str, reason: str = "the work item is over") -> None:
        """Cancel an item's timeouts; the item stays as it is."""
        ids = [task_id for task_id in self._ids(item_id) if task_id != UNDER_WAY.get()]
        await self._scheduler.apply("cancel", ids, reason)

    async def complete(
        self, item_id: str, *, by: str, reason: str | None = None, variables: Mapping[str, Any] | None = None
    ) -> bool:
        """Complete an item and cancel its timeouts; False if somebody did, or its time was over, before."""
        done = await self._engine.complete(item_id, by=by, reason=reason, variables=variables)
        await self.cancel(item_id)
        return done

    # -- processes

    async def start_later(
        self,
        process: str,
        variables: Mapping[str, Any] | None = None,
        delay: Duration | None = None,
        *,
        at: datetime | None = None,
        id: str | None = None,  # noqa: A002
    ) -> Task:
        """Start a process after a delay or at a time; to undo it, cancel the task that is returned."""
        if (delay is None) == (at is None):
            raise InvalidSchedule("say when to start it: after a delay, or at a time")
        wishes: dict[str, Any] = {"delay": delay} if at is None else {"at": at}
        if id is not None:
            wishes["id"] = f"{self._name}.start/{id}"
        args = {"process": process, "variables": dict(variables or {}), "instance": id}
        return await self._scheduler.add(f"{self._name}.start", args, **wishes)

    async def clean_up(self, older_than: Duration = "30d", *, cron: str = "30 3 * * *", tz: str = "UTC") -> Task:
        """Delete instances that were over for so long, every night unless told; said again, the new words count."""
        older_than_ms = to_ns(older_than) // 1_000_000
        name = f"{self._name}.clean-up"
        try:
            return await self._scheduler.add(
                name, {"older_than_ms": older_than_ms}, cron=cron, tz=tz, id=name, on_conflict="replace"
            )
        except TaskRunning:  # it goes on as it was said before
            return await self._scheduler.get(name)

    # -- parts

    def _timeouts(self, item: WorkItem, rule: TimeoutRule, timeout: Duration) -> list[dict[str, Any]]:
        """Return the tasks of an item: its deadline, and the reminders before it that are still to come."""
        timeout_id, *reminder_ids = self._ids(item.id)
        args, after = {"item": item.id}, timedelta(microseconds=-(-to_ns(timeout) // 1000))
        repeat: dict[str, Any] = {} if rule.repeat is None else {"every": rule.repeat, "times": rule.times}
        deadline = {"handler": f"{self._name}.timeout", "args": args, "id": timeout_id, **repeat}
        reminders = [
            ({"handler": f"{self._name}.remind", "args": args | {"left": _spoken(left)}, "id": reminder_id}, left)
            for reminder_id, left in zip(reminder_ids, rule.remind, strict=False)
            if to_ns(left) < to_ns(timeout)
        ]
        tasks = [
            (deadline, after),
            *((task, after - timedelta(microseconds=to_ns(left) // 1000)) for task, left in reminders),
        ]
        if item.created_at is None:
            return [{**task, "delay": wait} for task, wait in tasks]
        began = datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=item.created_at)
        return [{**task, "at": began + wait} for task, wait in tasks]

    def _ids(self, item_id: str) -> list[str]:
        """Return the ids of an item's tasks, the same for ever: the timeout, and as many reminders as there may be."""
        return [
            f"{self._name}.timeout/{item_id}",
            *(f"{self._name}.remind/{item_id}/{n}" for n in range(REMINDERS_MAX)),
        ]

    def _rule_for(self, item: WorkItem) -> TimeoutRule:
        rule = self.rule_of(item)
        if rule is None:
            raise MissingRule(item.node, sorted(self.rules))
        return rule

    async def _known(self, item_id: str) -> WorkItem:
        item = await self._engine.find(item_id)
        if item is None:
            raise UnknownWorkItem(item_id)
        return item

    # -- handlers

    async def _time_out(self, item: str, context: TaskContext) -> str:
        """Apply the rule of an item whose time is over."""
        UNDER_WAY.set(context.id)
        work = await self._engine.find(item)
        if work is None or work.state != "pending":
            await self._scheduler.cancel(context.id, "the work item is over")  # and with it, what would be repeated
            return "over"
        rule = self.rule_of(work)
        if rule is None:
            raise Fail(f"work item {item!r} is at node {work.node!r}, which has no TimeoutRule any more")
        return rule.action if await self._apply(rule, item, context.occurrence_id) else "done before"

    async def _apply(self, rule: TimeoutRule, item: str, key: str) -> bool:
        if rule.action == "auto":
            return await self._engine.complete(item, by=SYSTEM, reason=rule.reason, variables=rule.variables)
        if rule.action == "escalate":
            assert rule.target is not None
            return await self._engine.escalate(item, rule.target, reason=rule.reason, key=key)
        return await self._engine.notify(item, rule.target, reason=rule.reason, key=key)

    async def _remind(self, item: str, left: str, context: TaskContext) -> bool:
        """Tell whoever has an item how long it can wait."""
        return await self._engine.notify(item, None, reason=f"due in {left}", key=context.occurrence_id)

    async def _start(self, process: str, variables: dict[str, Any], instance: str | None, context: TaskContext) -> str:
        """Start a process; in every attempt it is the same instance."""
        return await self._engine.start(process, variables, id=instance or context.id)

    async def _clean_up(self, older_than_ms: int, context: TaskContext) -> int:
        """Delete what is old enough, some at a time."""
        deleted = 0
        while found := await self._engine.purge(context.scheduled_at - older_than_ms, PURGE_BATCH):
            deleted += found
        return deleted


def _spoken(duration: Duration) -> str:
    """Return a duration in words: as it was said, if it was."""
    return duration if isinstance(duration, str) else str(timedelta(microseconds=to_ns(duration) // 1000))
