"""What runs handlers: on the event loop, on threads or in processes, bounded, by priority and with time limits."""

from tickwheel.workers.contract import Gate, Job, Outcome, Pool
from tickwheel.workers.loop_pool import LoopPool
from tickwheel.workers.process_pool import ProcessPool
from tickwheel.workers.thread_pool import ThreadPool
from tickwheel.workers.workers import Workers

__all__ = ["Gate", "Job", "LoopPool", "Outcome", "Pool", "ProcessPool", "ThreadPool", "Workers"]
