"""What runs handlers: on the event loop, on threads or in processes, bounded, by priority and with time limits.

    begin(handler, task) ---> run_queue ---> loop_pool      async functions, as tasks of the loop
                              by priority    thread_pool    plain functions
                              and limit      process_pool   CPU work, each process a child

    workers       takes runs in, gives them places, ends those that are out of time, and tells what each came to
    capacity      says how many more runs could begin in a moment: what is worth claiming
    arguments     fit what a task brings to what its function takes
    results       what may be stored and raised of what a function returns and raises
    child         what runs inside a worker process; forks keeps copies of it from answering

Read workers first, then contract, which every pool implements.
"""

from tickwheel.workers.contract import Gate, Job, Outcome, Pool
from tickwheel.workers.loop_pool import LoopPool
from tickwheel.workers.process_pool import ProcessPool
from tickwheel.workers.thread_pool import ThreadPool
from tickwheel.workers.workers import Workers

__all__ = ["Gate", "Job", "LoopPool", "Outcome", "Pool", "ProcessPool", "ThreadPool", "Workers"]
