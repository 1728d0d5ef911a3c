"""Durable tasks: added once, run though processes die."""

from tickwheel.scheduler.async_scheduler import AsyncScheduler
from tickwheel.scheduler.leases import Message
from tickwheel.scheduler.options import Options
from tickwheel.scheduler.recovery import Recovery
from tickwheel.scheduler.scheduler import Scheduler

__all__ = ["AsyncScheduler", "Message", "Options", "Recovery", "Scheduler"]
