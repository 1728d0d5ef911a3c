"""One instance while it goes on: from what was loaded to what is to be saved, on one thread, without a pause.

    load -> act (complete an item, or nothing but let time pass) -> drain -> what it waits for now -> save

To drain is to let timers fire and the engine take its steps until only people and time are waited for. SpiffWorkflow
marks a timer that fires as ready in one call and acts on it in the next: in between, an item that was just timed out
could still be completed. So nothing is saved there. A cycle fires once in a call, however late: it is called again.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final
from uuid import UUID

import msgspec
from SpiffWorkflow.bpmn import BpmnWorkflow
from SpiffWorkflow.bpmn.specs.event_definitions.timer import CycleTimerEventDefinition
from SpiffWorkflow.util.task import TaskState

from tickwheel.clock import Clock
from tickwheel.errors import InvalidProcess
from tickwheel.workflow.contract import WorkItem
from tickwheel.workflow.instances import Change, Instance, Loaded
from tickwheel.workflow.spiff.definitions import Specs
from tickwheel.workflow.spiff.timers import check_value, due_of, skip_missed, timers_in, waiting_timers
from tickwheel.workflow.spiff.writing import read_body, write_body

__all__ = ["Running", "check_variables"]

STEPS_MAX: Final = 10_000  # of the engine in one go; a process that takes more runs in circles
ROUNDS_MAX: Final = 1_000  # of firing in one go; what is still overdue then goes on in the next one
CIRCLES: Final = f"it took {STEPS_MAX:,} steps, or as many as there can be, and waits for nobody: it runs in circles"
RESERVED: Final = "typename"  # what SpiffWorkflow knows its own dictionaries by


class Running:
    """An instance in memory."""

    def __init__(self, instance: Instance, items: list[WorkItem], workflow: Any, clock: Clock) -> None:
        self.workflow = workflow
        self._before = instance
        self._items = {item.id: item for item in items}
        self._clock = clock
        self._ended: dict[str, tuple[str, str | None]] = {}  # items that were completed: by whom, and why
        self._cancelled = False
        self._steps = 0

    @classmethod
    def fresh(
        cls, instance: Instance, variables: Mapping[str, Any], specs: Specs, script_engine: Any, clock: Clock
    ) -> "Running":
        """Begin an instance."""
        workflow = BpmnWorkflow(specs.process, specs.inner, script_engine=script_engine)
        workflow.task_tree.set_data(**variables)
        return cls(instance, [], workflow, clock)

    @classmethod
    def loaded(cls, loaded: Loaded, specs: Specs, script_engine: Any, clock: Clock) -> "Running":
        """Go on with an instance."""
        workflow = read_body(loaded.instance.body, specs, script_engine)
        return cls(loaded.instance, loaded.items, workflow, clock)

    def complete(self, item_id: str, by: str, reason: str | None, variables: Mapping[str, Any]) -> bool:
        """Complete a work item; False if it is not ready: SpiffWorkflow itself would run it in any state."""
        task = self.workflow.get_task_from_id(UUID(item_id))
        if task is None or not task.has_state(TaskState.READY) or not task.task_spec.manual:
            return False
        task.set_data(**variables)
        task.run()
        self._ended[item_id] = (by, reason)
        return True

    def cancel(self) -> None:
        """Give up the instance, and all it waits for."""
        self.workflow.cancel()
        self._cancelled = True

    def drain(self) -> None:
        """Let timers fire and the engine take its steps, until only people and time are waited for; within bounds."""
        for _ in range(ROUNDS_MAX):
            self._skip_missed()
            self.workflow.refresh_timers()
            while self._step():
                self._skip_missed()  # some cycles fire with the engine's steps as well
            if not any(due <= self._now() for due in self.timers().values()):
                break
        if any(not task.task_spec.manual for task in self._ready()):
            raise InvalidProcess(CIRCLES)  # the engine does not find its own tasks any more, so deep is the tree

    def _skip_missed(self) -> None:
        for task, timer in waiting_timers(self.workflow):
            skip_missed(task, timer, self._now())

    def _step(self) -> bool:
        try:
            return bool(self.workflow._do_engine_steps(self._look_at))
        except RecursionError:  # its tree of tasks grows with every step
            raise InvalidProcess(CIRCLES) from None

    def _ready(self) -> Iterator[Any]:
        """List what can be done now, by people or the engine, at any depth."""
        for workflow in (self.workflow, *self.workflow.get_active_subprocesses()):
            yield from (task for task in list(workflow.tasks.values()) if task.has_state(TaskState.READY))

    def timers(self) -> dict[str, int]:
        """Return what is waited for, and when each is due."""
        return {str(task.id): due_of(task, timer) for task, timer in waiting_timers(self.workflow)}

    def saved(self, answer: Any) -> Change[Any]:
        """Return how the instance is to be saved."""
        now, before = self._now(), self._before
        self._check_new_timers()
        timers, items = self.timers(), self._changed_items(now)
        over = self._cancelled or self.workflow.is_completed()
        revision = before.revision + 1
        wishes = timers != before.timers or bool(items)
        instance = msgspec.structs.replace(
            before,
            revision=revision,
            handed=before.handed if wishes or before.handed < before.revision else revision,
            status="cancelled" if self._cancelled else "completed" if over else "running",
            timers=timers,
            data=_plain(self.workflow.data) if over else {},
            body=write_body(self.workflow),
            incident=None,
            changed_at=now,
            finished_at=now if over else None,
        )
        return Change(answer, instance, items)

    def _look_at(self, task: Any) -> None:
        """See whether the engine may take a step: one too many, or on the word of a timer that cannot be relied on."""
        self._steps += 1
        if self._steps > STEPS_MAX:
            raise InvalidProcess(CIRCLES)
        for timer in timers_in(getattr(task.task_spec, "event_definition", None)):
            self._check(task, timer)

    def _now(self) -> int:
        return self._clock.time_ns() // 1_000_000

    def _check_new_timers(self) -> None:
        """Look at the words of timers that were just begun: what was made of them may not show what is wrong."""
        for task, timer in waiting_timers(self.workflow):
            if str(task.id) not in self._before.timers:
                self._check(task, timer)

    def _check(self, task: Any, timer: Any) -> None:
        if isinstance(timer, CycleTimerEventDefinition):
            check_value(timer, self.workflow.script_engine.evaluate(task, timer.expression))
        else:
            check_value(timer, task.internal_data.get("event_value"))

    def _changed_items(self, now: int) -> list[WorkItem]:
        """Return work items that came up, and those that are over."""
        ready = {str(task.id): task for task in self._ready() if task.task_spec.manual}
        new = [self._item(item_id, task, now) for item_id, task in ready.items() if item_id not in self._items]
        return new + [self._over(item, now) for item_id, item in self._items.items() if item_id not in ready]

    def _item(self, item_id: str, task: Any, now: int) -> WorkItem:
        return WorkItem(
            id=item_id,
            node=task.task_spec.bpmn_id or task.task_spec.name,
            process=self._before.process,
            instance=self._before.id,
            assignee=task.task_spec.lane,
            created_at=now,
        )

    def _over(self, item: WorkItem, now: int) -> WorkItem:
        done = item.id in self._ended
        by, reason = self._ended.get(item.id, (None, "the process went on without it"))
        state: Any = "completed" if done else "cancelled"
        return msgspec.structs.replace(item, state=state, ended_at=now, ended_by=by, reason=reason)


def check_variables(variables: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return variables as they will be read again, or say why they cannot be kept."""
    try:
        kept = msgspec.json.decode(msgspec.json.encode(dict(variables or {})))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidProcess(f"the variables of a process are kept as JSON: {error}") from None
    waiting = [kept]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            if RESERVED in value:
                raise InvalidProcess(f"no variable can have the name {RESERVED!r}: SpiffWorkflow uses it for itself")
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
    return dict(kept)


def _plain(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the variables at the end as JSON has them, whatever scripts have made of them."""
    return {name: msgspec.to_builtins(value, enc_hook=str) for name, value in data.items() if not callable(value)}
