"""Fixtures for every package: each test that asks for `build` or `scheme` runs on both builds."""

import gc
import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.builds import BUILDS, Build
from tests.etcd import Prefix
from tests.postgres import Database
from tests.quick import is_left_out
from tickwheel.testing.etcd import EtcdCluster
from tickwheel.testing.postgres import PostgresServer
from tickwheel.testing.redis import RedisCluster, RedisServer

# Runs a user's test file in a process of its own; pytest takes it from the top-level conftest only.
pytest_plugins = "pytester"

# What a test needs that is started once, and what tests that need it are called.
SHARED = {
    "browser": "browser",
    "etcd": "etcd",
    "postgres": "postgres",
    "redis_server": "redis",
    "redis_cluster": "redis",
}

# The gate takes the same examples every time; `make fuzz` looks for new ones.
settings.register_profile(
    "gate", derandomize=True, deadline=None, max_examples=20, stateful_step_count=40, print_blob=True
)
# Rounds are short, so that `make fuzz` ends soon after its time is over.
settings.register_profile("fuzz", deadline=None, max_examples=300, stateful_step_count=60, print_blob=True)
# What `--quick` takes.
settings.register_profile("quick", settings.get_profile("gate"), max_examples=8)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "gate"))


def pytest_report_header() -> str:
    """Say which builds are tested."""
    return f"tickwheel builds: {', '.join(map(str, BUILDS))}"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--quick`."""
    parser.addoption(
        "--quick", action="store_true", help="leave out slow tests, and those that need a server or a browser"
    )


def pytest_configure(config: pytest.Config) -> None:
    """With `--quick`, take fewer examples."""
    if config.getoption("--quick"):
        settings.load_profile("quick")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With `--quick`, leave out what is slow, or needs a server or a browser; say what is to run in one process."""
    if config.getoption("--quick"):
        left_out = set(filter(is_left_out, items))
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]
    if config.pluginmanager.hasplugin("xdist"):
        for item in items:
            item.add_marker(pytest.mark.xdist_group(find_group(item)))


def find_group(item: pytest.Item) -> str:
    """Name the tests that run in one process: those of a file, and all that need the same server or the browser.

    To start one of these in each process would take longer than many of the tests.
    """
    needed = set(item.fixturenames) if isinstance(item, pytest.Function) else set()
    return next((group for fixture, group in SHARED.items() if fixture in needed), str(item.path))


def pytest_collection_finish() -> None:
    """Hide what is loaded by now from the garbage collector.

    Some hundred thousand objects of pytest and of modules: many tests run a full collection, and each would visit them.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(params=BUILDS, ids=str)
def build(request: pytest.FixtureRequest) -> Build:
    """One build of the package."""
    chosen: Build = request.param
    return chosen


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A server for all tests that need one; who stops it starts it again."""
    with PostgresServer.fresh() as server:
        yield server


@pytest.fixture
def database(postgres: PostgresServer) -> Database:
    """A schema of this test's own."""
    return Database(postgres)


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    """A server for all tests that need one; who stops it starts it again."""
    with RedisServer.fresh() as server:
        yield server


@pytest.fixture(scope="session")
def redis_cluster() -> Iterator[RedisCluster]:
    """Three masters, for all tests that need them."""
    with RedisCluster.fresh() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def etcd() -> Iterator[EtcdCluster]:
    """A cluster of three members for the tests of a module; who stops one starts it again."""
    with EtcdCluster.fresh() as cluster:
        yield cluster


@pytest.fixture
def prefix(etcd: EtcdCluster) -> Prefix:
    """A prefix of this test's own."""
    return Prefix(etcd)
