"""Tests of programs that wait, without waiting.

With pytest the fixture `virtual_clock` is there as soon as tickwheel is installed; see `plugin.py`. Anywhere
else a clock is made by hand:

    >>> import asyncio
    >>> from tickwheel import VirtualClock, aio
    >>> clock = VirtualClock()
    >>> aio.run(asyncio.sleep(365 * 86_400, "a year is over"), clock=clock)
    'a year is over'
"""

__all__: list[str] = []  # the fixture comes by the entry point; nothing here needs pytest
