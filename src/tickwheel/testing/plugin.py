"""The pytest plugin: what a test asks for by name.

    def test_the_reminder_comes_after_a_year(virtual_clock):
        aio.run(main(), clock=virtual_clock)

pytest finds it by the entry point `tickwheel`; `-p no:tickwheel` leaves it out.
"""

import pytest

from tickwheel.clock import VirtualClock

__all__ = ["virtual_clock"]


@pytest.fixture
def virtual_clock() -> VirtualClock:
    """Return a clock of the test's own, which stands still until it is moved."""
    return VirtualClock()
