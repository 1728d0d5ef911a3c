"""Queues on a real file, in real time: threads that lease, and a second process's cancel."""

import threading
from collections import Counter
from pathlib import Path

import pytest

from tickwheel.errors import LeaseLost
from tickwheel.scheduler import Scheduler
from tickwheel.tasks import Status


def test_threads_share_a_queue_and_do_everything_once(tmp_path: Path) -> None:
    done: Counter[str] = Counter()
    with Scheduler(f"sqlite:///{tmp_path}/tasks.db") as scheduler:
        scheduler.add_many([{"queue": "emails", "id": f"m{number}", "args": {"n": number}} for number in range(200)])

        def consume() -> None:
            while messages := scheduler.lease("emails", limit=7, lease="30s", wait=0.2):
                for message in messages:
                    scheduler.ack(message.id, message.lease_token)
                    done[message.id] += 1

        threads = [threading.Thread(target=consume) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert len(done) == 200
        assert set(done.values()) == {1}
        assert scheduler.counts()[Status.COMPLETED] == 200


def test_leases_run_out_and_are_extended_and_given_back(tmp_path: Path) -> None:
    with Scheduler(f"sqlite:///{tmp_path}/tasks.db") as scheduler:
        scheduler.add(queue="emails", id="m", args={"to": "ada"})
        [first] = scheduler.lease("emails", lease=0.2, wait=5)
        [second] = scheduler.lease("emails", lease=5, wait=10)
        assert (second.attempt, second.args, second.due) == (2, {"to": "ada"}, first.due)
        with pytest.raises(LeaseLost):
            scheduler.ack("m", first.lease_token)
        assert scheduler.extend("m", second.lease_token, lease="1m") > second.expires
        scheduler.nack("m", second.lease_token, "busy", delay=0)
        [third] = scheduler.lease("emails", wait=5)
        assert scheduler.ack("m", third.lease_token).status is Status.COMPLETED
        assert [run.error for run in scheduler.history("m")] == [None, "busy", "its lease ran out"]


def test_what_another_process_adds_and_cancels_is_noticed(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/tasks.db"
    with Scheduler(url) as scheduler, Scheduler(url, run=False) as other:
        other.add(queue="emails", id="m")
        [message] = scheduler.lease("emails", wait=10)
        other.cancel("m", "by another process")
        with pytest.raises(LeaseLost):
            scheduler.extend("m", message.lease_token)


def test_a_file_is_opened_again_with_what_waits_and_what_was_leased(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/tasks.db"
    with Scheduler(url) as scheduler:
        for name in ("leased", "waiting"):
            scheduler.add(queue="emails", id=name)
        assert len(scheduler.lease("emails", limit=1, wait=5)) == 1
    with Scheduler(url) as scheduler:
        got: dict[str, int] = {}
        while len(got) < 2:
            got |= {message.id: message.attempt for message in scheduler.lease("emails", wait=10)}
        assert sorted(got.values()) == [1, 2]
