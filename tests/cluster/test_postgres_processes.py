"""Processes on one PostgreSQL database: one is killed, one suspended, the server itself goes away and comes back."""

import asyncio
import signal
from pathlib import Path

from tests.cluster.nodes import play
from tests.cluster.stories import hints_are_heard_again, one_is_killed_and_one_suspended, server_crashes
from tests.postgres import Database
from tickwheel.testing.postgres import PostgresServer


def test_one_of_three_is_killed_and_one_suspended(database: Database, tmp_path: Path) -> None:
    play(tmp_path, database.url(), one_is_killed_and_one_suspended)


def test_the_server_crashes_and_comes_back(database: Database, postgres: PostgresServer, tmp_path: Path) -> None:
    play(tmp_path, database.url(), server_crashes(postgres, signal.SIGQUIT, signal.SIGINT))


def test_hints_are_heard_again_when_the_server_is_back(database: Database, postgres: PostgresServer) -> None:
    asyncio.run(hints_are_heard_again(database.url(), postgres))
