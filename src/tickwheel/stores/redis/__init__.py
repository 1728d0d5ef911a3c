"""Tasks in Redis: one server, one watched by Sentinel, or a cluster; shared by processes on any number of machines."""

from tickwheel.stores.redis.store import RedisStore

__all__ = ["RedisStore"]
