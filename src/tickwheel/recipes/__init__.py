"""Ready applications of a timing wheel: a cache, queues, and timeouts of what is idle."""

from tickwheel.recipes.async_delay_queue import AsyncDelayQueue
from tickwheel.recipes.delay_queue import DelayQueue
from tickwheel.recipes.idle_timeouts import IdleTimeouts
from tickwheel.recipes.ttl_cache import TTLCache

__all__ = ["AsyncDelayQueue", "DelayQueue", "IdleTimeouts", "TTLCache"]
