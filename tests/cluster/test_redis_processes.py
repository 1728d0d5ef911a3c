"""Processes on a cluster of Redis servers, and on one that crashes; what else goes wrong on one is in test_chaos.py."""

import asyncio
import signal
from pathlib import Path

from tests.cluster.nodes import play
from tests.cluster.stories import (
    hints_are_heard_again,
    one_is_killed_and_one_suspended,
    server_crashes,
    what_changes_right_before_the_end_is_told,
)
from tests.redis import Redis
from tickwheel.testing.redis import RedisCluster, RedisServer


def test_one_of_three_on_a_cluster_is_killed_and_one_suspended(redis_cluster: RedisCluster, tmp_path: Path) -> None:
    play(tmp_path, Redis(redis_cluster.url).url(), one_is_killed_and_one_suspended)


def test_the_server_crashes_and_comes_back(redis_server: RedisServer, tmp_path: Path) -> None:
    play(tmp_path, Redis(redis_server.url).url(), server_crashes(redis_server, signal.SIGKILL))


def test_hints_are_heard_again_when_the_server_is_back(redis_server: RedisServer) -> None:
    asyncio.run(hints_are_heard_again(Redis(redis_server.url).url(), redis_server))


def test_a_store_on_a_cluster_tells_what_changed_before_it_is_closed(redis_cluster: RedisCluster) -> None:
    asyncio.run(what_changes_right_before_the_end_is_told(Redis(redis_cluster.url).url()))
