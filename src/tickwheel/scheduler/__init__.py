"""Durable tasks: added once, run though processes die."""

from tickwheel.scheduler.async_scheduler import AsyncScheduler
from tickwheel.scheduler.engine.janitor import StartupReport
from tickwheel.scheduler.options import Options
from tickwheel.scheduler.queues.message_leases import Message
from tickwheel.scheduler.scheduler import Scheduler

__all__ = ["AsyncScheduler", "Message", "Options", "Scheduler", "StartupReport"]
