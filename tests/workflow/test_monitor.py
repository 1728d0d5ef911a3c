"""Timeouts of work items, whatever engine they are in: once, in time, and only while the item is pending."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.scheduler.worlds import UNHURRIED
from tests.workflow.desk import Desk
from tickwheel import VirtualClock, aio
from tickwheel.errors import InvalidRule, InvalidSchedule, MissingRule, UnknownWorkItem
from tickwheel.scheduler import AsyncScheduler
from tickwheel.stores import MemoryStore
from tickwheel.tasks import Status
from tickwheel.workflow import TimeoutMonitor, TimeoutRule

DAY = 86_400

Story = Callable[[TimeoutMonitor, AsyncScheduler, Desk], Awaitable[None]]


class Office:
    """A desk, its timeouts, and a clock that jumps to what is next."""

    def __init__(self, folder: Path) -> None:
        self.desk = Desk(folder / "desk.db")
        self.clock = VirtualClock()
        self.store = MemoryStore(now_ms=lambda: self.clock.time_ns() // 1_000_000)

    def play(self, story: Story, **rules: TimeoutRule) -> None:
        """Let a story happen; what it leaves behind is there for the next one, as after a restart."""

        async def main() -> None:
            options: dict[str, Any] = UNHURRIED
            scheduler = AsyncScheduler(self.store, clock=self.clock, **options)
            monitor = TimeoutMonitor(self.desk, scheduler, rules)
            async with scheduler:
                await story(monitor, scheduler, self.desk)

        aio.run(main(), clock=self.clock)


@pytest.fixture
def office(tmp_path: Path) -> Office:
    return Office(tmp_path)


def test_an_item_that_nobody_does_is_completed_by_the_system(office: Office) -> None:
    async def story(monitor: TimeoutMonitor, _scheduler: AsyncScheduler, desk: Desk) -> None:
        desk.put("a", "approve")
        await monitor.monitor("a")
        await aio.sleep(2.9 * DAY)
        item = await desk.find("a")
        assert item is not None
        assert item.state == "pending", "too early"
        await aio.sleep(0.2 * DAY)
        item = await desk.find("a")
        assert item is not None
        assert (item.state, item.ended_by, item.reason) == ("completed", "system", "silence is consent")

    office.play(story, approve=TimeoutRule("3d", "auto", reason="silence is consent", variables={"approved": True}))


def test_an_item_done_in_time_cancels_its_timeouts(office: Office) -> None:
    async def story(monitor: TimeoutMonitor, scheduler: AsyncScheduler, desk: Desk) -> None:
        desk.put("a", "approve", "ann")
        task = await monitor.monitor("a")
        assert task is not None
        assert await monitor.complete("a", by="ann", variables={"approved": False})
        assert (await scheduler.counts())[Status.PENDING] == 0
        await aio.sleep(5 * DAY)
        assert desk.told() == []
        assert (await scheduler.get(task.id)).reason == "the work item is over"
        assert not await monitor.complete("a", by="bob"), "it was completed before"

    office.play(story, approve=TimeoutRule("3d", "escalate", target="boss", remind=("1d", "1h")))


def test_an_item_that_was_done_elsewhere_is_left_alone(office: Office) -> None:
    async def story(monitor: TimeoutMonitor, scheduler: AsyncScheduler, desk: Desk) -> None:
        desk.put("a", "approve", "ann")
        task = await monitor.monitor("a")
        assert task is not None
        await desk.complete("a", by="ann")
        await aio.sleep(4 * DAY)
        assert desk.told() == []
        assert (await scheduler.get(task.id)).status is Status.CANCELLED, "with a repeat it would come again for ever"
        assert (await scheduler.counts())[Status.PENDING] == 0

    office.play(story, approve=TimeoutRule("3d", "escalate", target="boss", repeat="1d"))


def test_reminders_come_before_the_deadline_and_escalation_repeats_until_it_is_done(office: Office) -> None:
    async def story(monitor: TimeoutMonitor, _scheduler: AsyncScheduler, desk: Desk) -> None:
        desk.put("a", "approve", "ann")
        await monitor.monitor("a")
        await monitor.monitor("a")  # twice is once
        await aio.sleep(2.5 * DAY)
        assert desk.told() == [("a", "notify", "ann", "due in 1d")]
        await aio.sleep(2 * DAY)
        assert desk.told()[1:] == [("a", "notify", "ann", "due in 1h"), *[("a", "escalate", "boss", "too late")] * 2]
        assert await monitor.complete("a", by="boss")
        await aio.sleep(10 * DAY)
        assert len(desk.told()) == 4

    rule = TimeoutRule("3d", "escalate", target="boss", repeat="1d", remind=("1d", "1h"), reason="too late")
    office.play(story, approve=rule)


def test_a_repeat_ends_after_so_many_times(office: Office) -> None:
    async def story(monitor: TimeoutMonitor, _scheduler: AsyncScheduler, desk: Desk) -> None:
        desk.put("a", "approve", "ann")
        await monitor.monitor("a")
        await aio.sleep(30 * DAY)
        assert desk.told() == [("a", "notify", "ann", "not done in time")] * 3

    office.play(story, approve=TimeoutRule("1d", repeat="1d", times=3))


def test_a_timeout_of_its_own_wins_over_the_rules(office: Office) -> None:
    async def story(monitor: TimeoutMonitor, _scheduler: AsyncScheduler, desk: Desk) -> None:
        desk.put("a", "approve", "ann")
        await monitor.monitor("a")
        await monitor.monitor("a", timeout="2h")  # shorter than the reminder's lead, which is left out
        await aio.sleep(3 * 3600)
        assert desk.told() == [("a", "notify", "ann", "not done in time")]
        await monitor.monitor("a")  # changes nothing
        await aio.sleep(5 * DAY)
        assert len(desk.told()) == 1, "the rule's own deadline was moved, and its reminder with it"

    office.play(story, approve=TimeoutRule("3d", remind=("1d",)))


def test_a_rule_is_applied_once_though_it_is_delivered_twice(office: Office) -> None:
    async def story(monitor: TimeoutMonitor, scheduler: AsyncScheduler, desk: Desk) -> None:
        desk.put("a", "approve", "ann")
        task = await monitor.monitor("a")
        assert task is not None
        await aio.sleep(1.5 * DAY)
        assert (await scheduler.get(task.id)).result == "escalate"
        again = await scheduler.get(task.id)
        await scheduler._opened.revive([task.id], again.run_at)  # as if its outcome had never been written
        await aio.sleep(1 * DAY)
        again = await scheduler.get(task.id)
        assert (again.attempt, again.result) == (2, "done before")
        assert len(desk.told()) == 1

    office.play(story, approve=TimeoutRule("1d", "escalate", target="boss"))


def test_timeouts_survive_a_restart_and_an_engine_that_is_away(office: Office) -> None:
    async def begin(monitor: TimeoutMonitor, _scheduler: AsyncScheduler, desk: Desk) -> None:
        desk.put("a", "approve", "ann")
        await monitor.monitor("a")

    async def wait(_monitor: TimeoutMonitor, _scheduler: AsyncScheduler, desk: Desk) -> None:
        desk.failures = 5
        await aio.sleep(2 * DAY)

    rule = TimeoutRule("1d", "notify")
    office.play(begin, approve=rule)
    office.play(wait, approve=rule)
    assert office.desk.told() == [("a", "notify", "ann", "not done in time")]


def test_a_rule_that_is_gone_when_the_time_comes_is_a_failure_to_see(office: Office) -> None:
    async def begin(monitor: TimeoutMonitor, _scheduler: AsyncScheduler, desk: Desk) -> None:
        desk.put("a", "approve", "ann")
        await monitor.monitor("a")

    async def wait(_monitor: TimeoutMonitor, scheduler: AsyncScheduler, _desk: Desk) -> None:
        await aio.sleep(2 * DAY)
        [failed] = (await scheduler.list(status=Status.FAILED)).tasks
        assert "has no TimeoutRule any more" in str(failed.error)

    office.play(begin, approve=TimeoutRule("1d"))
    office.play(wait)


def test_what_cannot_be_monitored_is_refused(office: Office) -> None:
    async def story(monitor: TimeoutMonitor, scheduler: AsyncScheduler, desk: Desk) -> None:
        with pytest.raises(UnknownWorkItem, match="no work item 'a'"):
            await monitor.monitor("a")
        desk.put("a", "aprove")
        with pytest.raises(MissingRule, match="did you mean 'approve'"):
            await monitor.monitor("a")
        with pytest.raises(InvalidSchedule, match="say when"):
            await monitor.start_later("expense")
        desk.put("b", "approve")
        await desk.complete("b", by="ann")
        assert await monitor.monitor("b") is None
        assert sum((await scheduler.counts()).values()) == 0

    office.play(story, approve=TimeoutRule("1d"))


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ({"action": "explode"}, "action is"),
        ({"after": 0}, "longer than 0"),
        ({"action": "escalate"}, "say to whom"),
        ({"action": "auto", "repeat": "1h"}, "completed once"),
        ({"variables": {"x": 1}}, "action='auto'"),
        ({"repeat": "10ms"}, "every second"),
        ({"times": 3}, "goes with repeat"),
        ({"remind": ("3d",)}, "between the beginning and the deadline"),
        ({"remind": ("1h",) * 11}, "at most 10 reminders"),
    ],
)
def test_a_rule_that_cannot_work_is_refused(rule: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidRule, match=words):
        TimeoutRule(**{"after": "3d", **rule})


def test_a_process_is_started_later_once_and_with_its_variables(office: Office) -> None:
    async def story(monitor: TimeoutMonitor, scheduler: AsyncScheduler, desk: Desk) -> None:
        await monitor.start_later("survey", {"customer": 7}, "30d", id="survey-7")
        task = await monitor.start_later("survey", {"customer": 8}, "1d")
        await aio.sleep(2 * DAY)
        assert desk.instances() == {task.id: ("survey", {"customer": 8})}
        await scheduler.retry(task.id)
        await aio.sleep(30 * DAY)
        assert desk.instances() == {task.id: ("survey", {"customer": 8}), "survey-7": ("survey", {"customer": 7})}

    office.play(story)


def test_what_is_over_for_long_is_deleted_every_night(office: Office) -> None:
    async def story(monitor: TimeoutMonitor, _scheduler: AsyncScheduler, desk: Desk) -> None:
        for number in range(503):
            await desk.start("survey", {}, id=f"old-{number}")
            desk.finish(f"old-{number}", office.clock.time_ns() // 1_000_000)
        await desk.start("survey", {}, id="running")
        await monitor.clean_up("30d")
        await monitor.clean_up("30d")
        await aio.sleep(29 * DAY)
        assert len(desk.instances()) == 504
        await aio.sleep(3 * DAY)
        assert set(desk.instances()) == {"running"}

    office.play(story)
