"""`SpiffEngine`: BPMN processes that outlive the programs that run them, with timers that cost nothing while they wait.

    scheduler = AsyncScheduler("sqlite:///tasks.db")
    engine = SpiffEngine("sqlite:///processes.db", scheduler, rules={"approve": TimeoutRule("3d", remind=("1d",))})

    async with scheduler, engine:
        await engine.deploy("expense.bpmn")
        await engine.start("expense", {"amount": 70}, id="expense-7")
        [item] = await engine.items(node="approve")
        await engine.complete(item.id, by="ann", variables={"approved": True})

Every timer an instance waits for is a durable task, and so is the timeout of every work item that has a rule. There are
two stores, and no transaction spans both, so the order makes it safe: the instance is saved first, with what it wants;
then tasks are added, under ids made from (instance, timer, moment), which may be done twice; then it is noted that they
were. Who finds the note missing does it again. A task that comes due and finds its timer gone, or moved, does nothing.
"""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, Self, TypeVar
from uuid import uuid4

from SpiffWorkflow.bpmn.script_engine import PythonScriptEngine

from tickwheel.clock import Clock, SystemClock
from tickwheel.errors import (
    InstanceStuck,
    InvalidProcess,
    RetryAfter,
    Snooze,
    UnknownInstance,
    UnknownProcess,
    UnknownWorkItem,
)
from tickwheel.scheduler import AsyncScheduler
from tickwheel.stores.urls import absolute_url
from tickwheel.stores.validation import check_limit
from tickwheel.tasks import Task, TaskContext
from tickwheel.workflow.contract import WorkItem, WorkState
from tickwheel.workflow.instances import Change, Instance, InstanceStore, Loaded, Notice, open_instances
from tickwheel.workflow.monitor import PATIENT, UNDER_WAY, TimeoutMonitor
from tickwheel.workflow.rules import TimeoutRule
from tickwheel.workflow.spiff.definitions import Specs, read, specs_of
from tickwheel.workflow.spiff.handing import Handing
from tickwheel.workflow.spiff.notices import Notices, Send
from tickwheel.workflow.spiff.running import Running, check_variables

__all__ = ["SpiffEngine"]

T = TypeVar("T")

RECONCILE_EVERY: Final = "1m"  # how long an instance waits for tasks that a process did not live to add
NOT_OPEN_MS: Final = 200  # how long a task waits for an engine that is not open yet
ID_CHARS_MAX: Final = 150  # of an instance; its timers' tasks have longer ones, and 255 are the most


class SpecsMissing(Exception):
    """An instance is of a definition that this process has not read yet."""

    def __init__(self, key: str) -> None:
        self.key = key


class SpiffEngine:
    """BPMN processes in a store, driven by a scheduler. Make it before that is started: it brings handlers."""

    def __init__(
        self,
        store: str | InstanceStore,
        scheduler: AsyncScheduler,
        *,
        rules: Mapping[str, TimeoutRule] | None = None,
        script_engine: Any = None,
        on_notice: Send | None = None,
        name: str = "bpmn",
        clock: Clock | None = None,
    ) -> None:
        self._where = absolute_url(store) if isinstance(store, str) else store  # the program may change its folder
        self._store: InstanceStore | None = None
        self._scheduler = scheduler
        self._script_engine = script_engine or PythonScriptEngine()
        self._name = name
        self._clock = clock or SystemClock()  # the one SpiffWorkflow goes by
        self._specs: dict[str, Specs] = {}
        self.timeouts = TimeoutMonitor(self, scheduler, rules, name=name)
        self._handing = Handing(name, scheduler, self.timeouts)
        self._notices = Notices(name, scheduler, on_notice)
        scheduler.task(f"{name}.timer", retry=PATIENT)(self._fire)
        scheduler.task(f"{name}.reconcile")(self._reconcile)

    # -- begin and end

    async def open(self) -> Self:
        """Open the store, start the scheduler if it was not, and add what others did not live to add."""
        if self._store is None:
            self._store = await open_instances(self._where) if isinstance(self._where, str) else self._where
        await self._scheduler.start()
        await self._handing.reconcile(self._opened)
        name = f"{self._name}.reconcile"
        await self._scheduler.add(name, every=RECONCILE_EVERY, id=name, on_conflict="keep")
        return self

    async def close(self) -> None:
        """Stop the scheduler, and close the store."""
        await self._scheduler.stop()
        store, self._store = self._store, None
        if store is not None and isinstance(self._where, str):
            await store.close()

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # -- processes

    async def deploy(self, *files: str | Path, process: str | None = None) -> list[str]:
        """Read BPMN files and start their processes from them from now on; return the names of those.

        Instances that were started before go on with what they were started with.
        """
        texts = {Path(file).name: Path(file).read_text(encoding="utf-8") for file in files}  # noqa: ASYNC240 - small
        definitions = read(texts, process)
        for definition in definitions:
            await self._opened.deploy(definition, self._now())
        return [definition.process for definition in definitions]

    async def start(
        self,
        process: str,
        variables: Mapping[str, Any] | None = None,
        *,
        id: str | None = None,  # noqa: A002
    ) -> str:
        """Start a process and return the instance's id; one that is there already is not started again."""
        instance_id = id or uuid4().hex
        if len(instance_id) > ID_CHARS_MAX:
            raise InvalidProcess(f"the id of an instance has at most {ID_CHARS_MAX} characters, not {len(instance_id)}")
        given = check_variables(variables)
        definition = await self._opened.latest(process)
        if definition is None:
            raise UnknownProcess(process, await self._opened.processes())
        if definition.hash not in self._specs:
            self._specs[definition.hash] = specs_of(definition)
        specs = self._specs[definition.hash]
        blank = Instance(id=instance_id, process=process, definition=definition.hash, created_at=self._now())

        def act(loaded: Loaded | None) -> Change[str]:
            if loaded is not None:
                return Change(instance_id)
            running = Running.fresh(blank, given, specs, self._script_engine, self._clock)
            running.drain()
            return running.saved(instance_id)

        return await self._change(instance_id, act)

    async def start_later(self, process: str, variables: Mapping[str, Any] | None = None, **when: Any) -> Task:
        """Start a process after a `delay` or `at` a time."""
        return await self.timeouts.start_later(process, check_variables(variables), **when)

    async def get(self, instance_id: str) -> Instance:
        """Return an instance; `UnknownInstance` if there is none."""
        instance = await self._opened.get(instance_id)
        if instance is None:
            raise UnknownInstance(instance_id)
        return instance

    async def go_on(self, instance_id: str) -> bool:
        """Let an instance go on that could not, when what kept it is mended; False if it is over."""
        return await self._alter(instance_id, Running.drain)

    async def cancel(self, instance_id: str) -> bool:
        """Cancel an instance with all it waits for; False if it was over."""
        return await self._alter(instance_id, Running.cancel)

    async def _alter(self, instance_id: str, what: Callable[[Running], None]) -> bool:
        def act(loaded: Loaded | None) -> Change[bool]:
            if loaded is None:
                raise UnknownInstance(instance_id)
            if loaded.instance.status != "running":
                return Change(answer=False)
            running = self._load(loaded)
            what(running)
            return running.saved(answer=True)

        return await self._change(instance_id, act)

    async def purge(self, before: int, limit: int) -> int:
        """Delete at most so many instances that were over before a moment, and return how many."""
        return await self._opened.purge(before, limit)

    async def reconcile(self, *, everything: bool = False) -> int:
        """Add tasks that should be there: those that a process did not live to add, or all, if a store was lost."""
        return await self._handing.reconcile(self._opened, everything=everything)

    # -- work items

    async def items(
        self,
        *,
        instance: str | None = None,
        node: str | None = None,
        state: WorkState | None = "pending",
        limit: int = 100,
    ) -> list[WorkItem]:
        """List what people have to do, oldest first."""
        check_limit(limit)
        return await self._opened.items(instance, node, state, limit)

    async def find(self, item_id: str) -> WorkItem | None:
        """Return a work item; None if there is none."""
        return await self._opened.find_item(item_id)

    async def complete(
        self, item_id: str, *, by: str, reason: str | None = None, variables: Mapping[str, Any] | None = None
    ) -> bool:
        """Complete a work item as someone; False, and nothing done, if it was not pending any more."""
        given = check_variables(variables)
        item = await self.find(item_id)
        if item is None:
            raise UnknownWorkItem(item_id)

        def act(loaded: Loaded | None) -> Change[bool]:
            if loaded is None or item_id not in {pending.id for pending in loaded.items}:
                return Change(answer=False)
            running = self._load(loaded)
            if not running.complete(item_id, by, reason, given):
                return Change(answer=False)
            running.drain()
            return running.saved(answer=True)

        return item.state == "pending" and await self._change(item.instance, act)

    async def escalate(self, item_id: str, target: str, *, reason: str, key: str) -> bool:
        """Give a pending item to someone else, once for each key."""
        return await self._tell(item_id, "escalate", target, {"reason": reason, "key": key})

    async def notify(self, item_id: str, target: str | None, *, reason: str, key: str) -> bool:
        """Tell someone about a pending item, or whoever has it, once for each key."""
        return await self._tell(item_id, "notify", target, {"reason": reason, "key": key})

    async def notices(self, item_id: str) -> list[Notice]:
        """List what people were told about an item."""
        return await self._opened.notices(item_id)

    async def _tell(
        self, item: str, kind: Literal["escalate", "notify"], target: str | None, words: dict[str, str]
    ) -> bool:
        notice = Notice(item=item, kind=kind, target=target, told_at=self._now(), **words)
        return await self._notices.tell(self._opened, notice)

    # -- handlers

    async def _fire(self, instance: str, timer: str, due: int, context: TaskContext) -> str:
        """Let an instance go on whose timer is due; if the timer is gone, or waits for another moment, do nothing."""
        UNDER_WAY.set(context.id)

        def act(loaded: Loaded | None) -> Change[str | int]:
            if loaded is None or loaded.instance.timers.get(timer) != due:
                return Change("gone")
            running = self._load(loaded)
            running.drain()
            if running.timers().get(timer) == due:  # the clock was set back since the task began
                return Change(max(due - self._now(), 1))
            return running.saved("fired")

        answer = await self._change(instance, act)
        if isinstance(answer, int):
            raise Snooze(answer / 1000, "not due yet by the clock")
        return answer

    async def _reconcile(self) -> int:
        return await self.reconcile()

    # -- parts

    async def _change(self, instance_id: str, act: Callable[[Loaded | None], Change[T]]) -> T:
        """Let an instance go on, in one transaction, and then bring to tickwheel what it waits for."""
        store = self._opened
        seen: list[tuple[Loaded | None, Change[T]]] = []

        def work(loaded: Loaded | None) -> Change[T]:
            change = _told(instance_id, partial(act, loaded))
            seen.append((loaded, change))
            return change

        try:
            answer = await store.change(instance_id, work)
        except SpecsMissing as missing:
            await self._learn(missing.key)
            return await self._change(instance_id, act)
        except InstanceStuck as stuck:
            await store.report(instance_id, stuck.why, self._now())
            raise
        await self._handing.hand_over(store, *seen[-1])
        return answer

    def _load(self, loaded: Loaded) -> Running:
        specs = self._specs.get(loaded.instance.definition)
        if specs is None:
            raise SpecsMissing(loaded.instance.definition)
        return Running.loaded(loaded, specs, self._script_engine, self._clock)

    async def _learn(self, key: str) -> None:
        definition = await self._opened.definition(key)
        if definition is None:
            raise InvalidProcess(
                f"there is no definition {key} in the store, though instances are of it: it is damaged"
            )
        self._specs[key] = specs_of(definition)

    @property
    def _opened(self) -> InstanceStore:
        if self._store is None:
            raise RetryAfter(NOT_OPEN_MS / 1000, "this engine is not open: use `async with`, or await open()")
        return self._store

    def _now(self) -> int:
        return self._clock.time_ns() // 1_000_000


def _told(instance_id: str, act: Callable[[], T]) -> T:
    """Do something to an instance, and say what is wrong if it cannot go on: the process, a script, or its data."""
    try:
        return act()
    except (SpecsMissing, UnknownInstance):
        raise
    except Exception as error:
        raise InstanceStuck(instance_id, f"{type(error).__name__}: {error}") from error
