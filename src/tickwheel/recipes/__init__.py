"""Ready applications of a timing wheel: a cache, queues, and timeouts of what is idle."""

from tickwheel.recipes.delay_queue import AsyncDelayQueue, DelayQueue
from tickwheel.recipes.idle_timeouts import IdleTimeouts
from tickwheel.recipes.ttl_cache import TTLCache

__all__ = ["AsyncDelayQueue", "DelayQueue", "IdleTimeouts", "TTLCache"]
