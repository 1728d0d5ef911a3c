"""What `make test-quick` leaves out."""

import pytest

from tests.quick import imports_starter, is_left_out


@pytest.mark.parametrize(
    "module",
    [
        "tests.stores.test_redis_sharing",
        "tests.stores.test_postgres_add",
        "tests.dashboard.conftest",
        "tests.test_cli_server",
    ],
)
def test_modules_that_start_servers_are_found(module: str) -> None:
    assert imports_starter(module)


@pytest.mark.parametrize("module", ["tests.wheels.test_edges", "tests.recipes.test_ttl_cache", "tests.test_durations"])
def test_other_modules_are_kept(module: str) -> None:
    assert not imports_starter(module)


def test_slow_tests_are_left_out(request: pytest.FixtureRequest) -> None:
    item = request.node
    assert not is_left_out(item)
    item.add_marker(pytest.mark.slow)
    assert is_left_out(item)
