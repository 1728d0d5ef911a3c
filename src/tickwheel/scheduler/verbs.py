"""What else can be asked of a scheduler, and done to many tasks at once: what an administrator needs.

    page = await scheduler.query(Filter(tag="vip", status=Status.FAILED))
    await scheduler.apply("retry", [task.id for task in page.tasks])

`AsyncScheduler` has these besides its own; they are here to be read apart.
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, Literal, Unpack, cast

from msgspec.structs import replace

from tickwheel.errors import (
    DuplicateTask,
    InvalidFilter,
    SchedulerNotStarted,
    StoreUnavailable,
    TaskRunning,
    TaskUnreadable,
    TickwheelError,
    UnknownTask,
    VersionMismatch,
)
from tickwheel.observe.events import Events, Kind
from tickwheel.observe.picture import Dials
from tickwheel.scheduler.engine.engine import Engine
from tickwheel.scheduler.routing import find_handler
from tickwheel.scheduler.task_builder import TaskFields, build_task, build_update
from tickwheel.stores.contract import (
    COUNT_MAX,
    Conflict,
    Due,
    Filter,
    Lease,
    OnConflict,
    Page,
    RoutesTasks,
    Store,
    Total,
)
from tickwheel.stores.validation import check_batch, check_id, check_on_conflict, check_readable, check_reason
from tickwheel.tasks import transitions
from tickwheel.tasks.explain import Around, explain, is_due
from tickwheel.tasks.fields import invalid, is_a, whole
from tickwheel.tasks.record import ENDED, Status, Task, UnreadableTask
from tickwheel.tasks.registry import Handler, Registry

__all__ = ["Action", "Verbs", "aimed_at"]

Action = Literal["cancel", "pause", "resume", "retry", "run", "delete"]

KINDS: dict[Action, Kind] = {
    "cancel": "cancelled",
    "pause": "paused",
    "resume": "resumed",
    "retry": "rescheduled",
    "run": "rescheduled",
    "delete": "cancelled",
}
CHANGING: frozenset[OnConflict] = frozenset(("replace", "debounce"))  # an `add` that changes what is there
SWEEP_PAGE = 500  # tasks a commit
AMEND_TRIES = 200  # against others who change the same task: where four do without a pause, one try in 20 succeeds
VERSION_MAX = 2**53 - 1  # counts changes, exact in every JSON


class Verbs(ABC):
    """The verbs of a scheduler that is open; the scheduler itself brings the four parts they stand on."""

    events: Events
    _engine: Engine | None
    _registry: Registry
    _run: bool
    _store: Store | None
    _stopped: bool

    @property
    @abstractmethod
    def _opened(self) -> Store: ...

    @abstractmethod
    def _now(self) -> int: ...

    @abstractmethod
    def _now_ns(self) -> int: ...

    @abstractmethod
    async def _set_clock(self) -> None: ...

    @abstractmethod
    def _new_ids(self, now: int, count: int) -> Iterator[str]: ...

    @abstractmethod
    def _note(self, task: Task, kind: Any) -> Task: ...

    @property
    def is_open(self) -> bool:
        """Whether it was started, and not stopped since."""
        return self._store is not None

    # -- asking

    async def query(self, wanted: Filter, cursor: str | None = None, limit: int = 100) -> Page:
        """List tasks, newest first by default, page by page."""
        page = await self._opened.query(wanted, cursor, limit)
        tasks = await self.explain(page.tasks)
        if wanted.status == Status.RUNNING:  # which may be given as a word
            tasks = [task for task in tasks if task.status is Status.RUNNING]
        return replace(page, tasks=tasks)

    def _seen(self, task: Task) -> Task:
        """Return a task of the store as this process sees it: claimed here and not begun, it is pending."""
        if self._engine is None or task.status is not Status.RUNNING or isinstance(task, UnreadableTask):
            return task
        return task if self._engine.has_begun(task) else transitions.unclaimed(task)

    async def explain(self, tasks: Sequence[Task]) -> list[Task]:
        """Return tasks of the store with why they are not running, as of now, in `reason_code` and `reason`."""
        await self._set_clock()
        tasks = [self._seen(task) for task in tasks]
        now = self._now()
        asked = any(is_due(task, now) and task.queue is None for task in tasks)
        around = await self._around(now) if asked else Around(now=now)
        return [explain(task, around, None if self._engine is None else self._engine.obstacle(task)) for task in tasks]

    async def _around(self, now: int) -> Around:
        """Read which nodes are online, and which handlers they have where the store knows."""
        store = self._opened
        if not hasattr(store, "move"):
            return Around(now=now, nodes=len({lease.node for lease in await store.leases()}))
        nodes = await cast("RoutesTasks", store).nodes()
        handlers = {handler for node in nodes for handler in node.handlers or ()}
        return Around(now=now, nodes=len(nodes), handlers=None if any(n.handlers is None for n in nodes) else handlers)

    async def get_many(self, ids: Sequence[str]) -> list[Task | None]:
        """Return tasks by id, in that order; None for each that is not there."""
        return [None if task is None else self._seen(task) for task in await self._opened.get(ids)]

    async def count(self, wanted: Filter, most: int = COUNT_MAX) -> Total:
        """Count tasks; of very many, some, and it says so."""
        return await self._opened.count(wanted, most)

    def handlers(self) -> list[Handler]:
        """List the handlers this process knows, by name."""
        return [self._registry.find(name) for name in self._registry.names()]

    def where(self, task: Task) -> str:
        """Say where a task is now, as far as this process knows."""
        if task.status in ENDED:
            return "over, in the store"
        if task.listed_status is Status.PAUSED or self._engine is None:
            return "in the store"
        return self._engine.where(task)

    def dials(self) -> Dials | None:
        """Return what the wheel looks like; None if nothing is run here. To be asked on the scheduler's loop."""
        return None if self._engine is None else self._engine.dials()

    def slot(self, level: int, slot: int) -> Iterable[Due]:
        """List what waits in a slot of the wheel."""
        return () if self._engine is None else self._engine.slot(level, slot)

    @property
    def node(self) -> str | None:
        """The name of this scheduler among others on its store; None if it runs nothing."""
        return None if self._engine is None else self._engine.node

    async def time(self) -> int:
        """Read the store's clock, by which leases end; its own process's, if the store has none."""
        return await self._opened.time()

    async def leases(self) -> list[Lease]:
        """List who runs the tasks of which partition, among all that share the store."""
        return await self._opened.leases()

    async def unresponsive_nodes(self) -> list[tuple[str, int | None]]:
        """List nodes that own partitions and do not respond, with their pid if it is known; where a store can tell."""
        ask = getattr(self._opened, "unresponsive", None)
        return [] if ask is None else await ask()

    # -- adding

    async def add_one(self, wishes: Mapping[str, Any], *, on_conflict: OnConflict = "reject") -> Conflict:
        """Add a task, a dict of what `add` takes, and say whether it is the one that is in the store now."""
        on_conflict = check_on_conflict(on_conflict)
        await self._set_clock()
        return (await self._add_noted(list(self.build_tasks([wishes])), on_conflict))[0]

    async def add_each(
        self, tasks: Sequence[Mapping[str, Any]], *, on_conflict: OnConflict = "reject"
    ) -> list[Conflict | TickwheelError]:
        """Add those tasks that can be added, in one commit; for each of the others, say why not."""
        on_conflict = check_on_conflict(on_conflict)
        check_batch(tasks)
        await self._set_clock()
        now_ns = self._now_ns()
        new_ids = self._new_ids(now_ns // 1_000_000, len(tasks))
        answers: list[Conflict | TickwheelError | None] = [None] * len(tasks)
        drafts: dict[int, Task] = {}
        named: dict[int, Task] = {}  # of these, those whose ids were given
        for place, wishes in enumerate(tasks):
            try:
                said = plain_fields(wishes)
                task = self._draft(said, new_ids, now_ns)
                transitions.check_debounce(task, on_conflict)
                drafts[place] = task
                if "id" in said:
                    named[place] = task
            except TickwheelError as error:
                answers[place] = error
        async with self._kept_from_beginning(named.values(), on_conflict):
            refused = await self._refused(named, on_conflict) if named else {}  # a new id is nobody else's
            while True:
                answers = [refused.get(place, answer) for place, answer in enumerate(answers)]
                wanted = {place: task for place, task in drafts.items() if place not in refused}
                try:
                    conflicts = await self._add_noted(list(wanted.values()), on_conflict)
                    break
                except (DuplicateTask, TaskRunning) as error:  # somebody was quicker
                    refused |= {place: error for place, task in wanted.items() if task.id == error.task_id}
        for place, conflict in zip(wanted, conflicts, strict=True):
            answers[place] = conflict
            if on_conflict in CHANGING:
                self._note(conflict.task, None)  # as it was before, it may have come due while it was held back
        return cast("list[Conflict | TickwheelError]", answers)

    def build_task(
        self, handler: str | Callable[..., Any] | None = None, args: Mapping[str, Any] | None = None, **wishes: Any
    ) -> Task:
        """Make a task as `add` would, with all its checks, and do not add it."""
        [task] = self.build_tasks([{"handler": handler, "args": args, **wishes}])
        return task

    def build_tasks(self, wanted: Sequence[Mapping[str, Any]]) -> Iterator[Task]:
        """Make tasks, each of a dict of what `add` takes, one after the other; on any thread."""
        now_ns = self._now_ns()
        new_ids = self._new_ids(now_ns // 1_000_000, len(wanted))
        for wishes in wanted:
            yield self._draft(wishes, new_ids, now_ns)

    def _draft(self, wishes: Mapping[str, Any], new_ids: Iterator[str], now_ns: int) -> Task:
        """Make a task of what a caller says."""
        store = self._store
        if store is None:
            raise SchedulerNotStarted(stopped=self._stopped)
        wishes = plain_fields(wishes)
        handler = find_handler(self._registry, wishes, here=self._run)
        task_id = wishes["id"] if "id" in wishes else next(new_ids)
        return build_task(handler, wishes, task_id, now_ns, store.partitions)

    async def _refused(self, drafts: Mapping[int, Task], on_conflict: OnConflict) -> dict[int, TickwheelError]:
        """Find out what would keep a batch from being added."""
        ids = [task.id for task in drafts.values()]
        there = dict(zip(ids, await self._opened.get(ids), strict=True))
        refused: dict[int, TickwheelError] = {}
        for place, task in drafts.items():
            try:
                there[task.id], _ = transitions.add(there[task.id], task, on_conflict)
            except TickwheelError as error:
                refused[place] = self._duplicate(error) if isinstance(error, DuplicateTask) else error
        return refused

    async def _add_noted(self, drafts: Sequence[Task], on_conflict: OnConflict) -> list[Conflict]:
        with self.events.adding(drafts) as witnessed:
            if witnessed is not drafts:
                check_readable(witnessed)
            try:
                if self._engine is None or on_conflict not in CHANGING:
                    conflicts = await self._opened.add(witnessed, on_conflict)
                else:
                    async with self._kept_from_beginning(witnessed, on_conflict):
                        conflicts = await self._opened.add(witnessed, on_conflict)
            except DuplicateTask as error:
                if sum(task.id == error.task_id for task in drafts) > 1:
                    raise DuplicateTask(error.task, in_batch=True) from None
                seen = self._duplicate(error)
                if seen is error:
                    raise
                raise seen from None
        if self._engine is not None or self.events.listeners:
            for conflict in conflicts:
                self._note(conflict.task, "added" if conflict.added else None)
        if on_conflict == "keep":
            return [
                conflict if conflict.added else replace(conflict, task=self._seen(conflict.task))
                for conflict in conflicts
            ]
        return conflicts

    def _duplicate(self, error: DuplicateTask) -> DuplicateTask:
        """Return an error with the task as this process sees it."""
        seen = self._seen(error.task)
        return error if seen is error.task else DuplicateTask(seen)

    def _kept_from_beginning(
        self, drafts: Iterable[Task], on_conflict: OnConflict
    ) -> AbstractAsyncContextManager[None]:
        """Hold back the tasks that an `add` changes, as any other verb that changes a task does."""
        return self._held_back(*(task.id for task in drafts)) if on_conflict in CHANGING else nullcontext()

    # -- changing

    def _held_back(self, *ids: str) -> AbstractAsyncContextManager[None]:
        """Keep tasks from beginning while they are changed; to be noted when that is over."""
        return nullcontext() if self._engine is None else self._engine.hold_back(ids)

    async def amend(
        self,
        task_id: str,
        args: Mapping[str, Any] | None = None,
        *,
        version: int | None = None,
        **wishes: Unpack[TaskFields],
    ) -> Task:
        """Change a task: its time, arguments or policies; what is not said stays.

        A recurring task that runs is changed from its next occurrence on; a one-off raises `TaskRunning` then.
        With a version, only if the task still has it: `VersionMismatch` otherwise. Without one, the task is read again
        until nobody else changes it in between.
        """
        task_id = check_id(task_id)
        if version is not None:
            version = whole("version", version, 0, VERSION_MAX)
        for _ in range(AMEND_TRIES):
            try:
                async with self._held_back(task_id):
                    after = await self._amend(task_id, args, version, wishes)
                return self._note(after, "completed" if after.status is Status.COMPLETED else "rescheduled")
            except VersionMismatch:
                if version is not None:
                    raise
        raise StoreUnavailable(
            f"task {task_id!r} was changed by others between reading and writing it, {AMEND_TRIES} times in a row; "
            "nothing was changed, try again"
        )

    async def _amend(
        self, task_id: str, args: Mapping[str, Any] | None, version: int | None, wishes: Mapping[str, Any]
    ) -> Task:
        task = self._readable(task_id, (await self._opened.get([task_id]))[0])
        if version is not None and task.version != version:
            raise VersionMismatch(task_id, task.version)
        now_ns = self._now_ns()
        left = task.following  # a change that was made during a run, for the next occurrence
        if left is None:
            after = build_update(task, args, wishes, now_ns)
        elif task.status is Status.RUNNING:
            # As of a task that runs: what was asked for with run_now is made.
            after = build_update(replace(left.task, status=Status.RUNNING, version=task.version), args, wishes, now_ns)
        else:  # it waits for another attempt: this change is for that and for what follows
            then = build_update(replace(left.task, status=Status.RUNNING), args, wishes, now_ns)
            following = replace(left, task=replace(then, status=Status.PENDING))
            after = replace(build_update(task, args, wishes, now_ns), following=following)
        return (await self._opened.amend([after]))[0]

    async def delete(self, task_id: str) -> Task:
        """Delete a task and its runs, and return how it was; `TaskRunning` while it runs."""
        task_id = check_id(task_id)
        task = self._known(task_id, (await self.apply("delete", [task_id]))[0])
        if task.status is Status.RUNNING:
            raise TaskRunning(task_id)
        return task

    def _known(self, task_id: str, task: Task | None) -> Task:
        if task is None:
            raise UnknownTask(task_id)
        return task

    def _readable(self, task_id: str, task: Task | None) -> Task:
        if isinstance(task, UnreadableTask):
            raise TaskUnreadable(task.id, task.why)
        return self._known(task_id, task)

    async def apply(
        self, action: Action, ids: Sequence[str], reason: str = "cancelled", **options: bool
    ) -> list[Task | None]:
        """Do the same to many tasks, and return how they are then; what it cannot be done to stays as it is.

        Options are those of the verb: `run_only` of cancel, `run_missed` of resume.
        """
        reason = check_reason(reason)
        async with self._held_back(*ids):
            before = {task.id: task for task in await self._opened.get(ids) if task is not None}
            after = await self._act(action, ids, reason, options)
        for task in after:
            if task is None or task.id not in before:
                continue
            if action == "delete" and task.status is not Status.RUNNING:
                over = task.status in ENDED
                gone = task if over else replace(task, status=Status.CANCELLED, reason="deleted")
                self._note(gone, None if over else "cancelled")
            elif task.version != before[task.id].version:
                asked = action == "cancel" and task.status is Status.RUNNING  # to stop: it is told when it does
                self._note(task, None if asked else KINDS[action])
        return after

    async def sweep(
        self, action: Action, wanted: Filter, reason: str = "cancelled in bulk"
    ) -> AsyncIterator[tuple[int, int]]:
        """Do the same to all tasks that fit, page by page; tell how many were seen and how many changed so far.

        By a cursor: what is added meanwhile is not touched, and nothing is touched twice. A retry is for what failed,
        unless another status is named.
        """
        wanted = aimed_at(action, wanted)
        seen = changed = 0
        cursor: str | None = None
        while True:
            page = await self._opened.query(wanted, cursor, SWEEP_PAGE)
            after = await self.apply(action, [task.id for task in page.tasks], reason)
            for old, new in zip(page.tasks, after, strict=True):
                gone = action == "delete" and new is not None and new.status is not Status.RUNNING
                changed += gone or (new is not None and new.version != old.version)
            seen += len(page.tasks)
            cursor = page.cursor
            yield seen, changed
            if cursor is None:
                return

    async def _act(
        self, action: Action, ids: Sequence[str], reason: str, options: Mapping[str, bool]
    ) -> list[Task | None]:
        store = self._opened
        if action == "cancel":
            return await store.cancel(ids, reason, **options)
        if action == "pause":
            return await store.pause(ids)
        if action == "resume":
            return await store.resume(ids, **options)
        if action == "retry":
            return await store.revive(ids, self._now())
        if action == "delete":
            return await store.remove(ids)
        return await store.run_now(ids)


def plain_fields(wishes: object) -> Mapping[str, Any]:
    """Return what a caller says of a task as a plain dict, which runs no code of the caller's when it is read."""
    if type(wishes) is dict:
        return wishes
    if is_a(wishes, Mapping):  # type: ignore[type-abstract]
        try:
            return {str.__str__(name) if is_a(name, str) else name: value for name, value in wishes.items()}
        except Exception as error:
            raise invalid("tasks", wishes, f"dicts; its class raises {type(error).__name__}") from error
    raise invalid("tasks", wishes, "dicts, each of what add() takes")


def aimed_at(action: Action, wanted: Filter) -> Filter:
    """Return which tasks an action on many is for: a retry is for what failed, unless another status is named.

    An empty filter is refused: an action on everything is too easily a mistake.
    """
    if all(getattr(wanted, name) in (None, "") for name in Filter.__struct_fields__ if name != "order"):
        raise InvalidFilter(
            "an empty filter selects every task; name a status, handler, id_prefix, tag, text, due_after or due_before"
        )
    return replace(wanted, status=Status.FAILED) if action == "retry" and wanted.status is None else wanted
