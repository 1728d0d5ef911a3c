"""A forked child lets go of its parent's timers, and what is dropped there may use anything that tickwheel has."""

import pytest

from tests.builds import Build
from tests.wheels.processes import run

# The child is killed if it hangs in fork() itself, where nothing of the script runs yet.
CHILD = """
    import os, signal, threading, warnings
    os.register_at_fork(after_in_child=lambda: signal.alarm(30))
    from tickwheel import ManualTimers, Timers, default_timers
    from tickwheel.recipes import IdleTimeouts, TTLCache
    from tickwheel.timers import thread_driver
    warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of just what is tried here

    class Payload:
        def __init__(self, use):
            self.use = use

        def __call__(self):
            pass

        def __del__(self):
            if os.getpid() != parent:
                self.use()

    def in_child(check):
        child = os.fork()
        if child == 0:
            check()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        print("the child ended well", flush=True)
        os._exit(0)

    parent = os.getpid()
    one, other = ManualTimers(), ManualTimers()
    idle, cache = IdleTimeouts(other), TTLCache(9, "1h")
"""


@pytest.mark.parametrize(
    ("use", "take", "give"),
    [
        ("one.cancel('x'), other.cancel('x')", "one._registry.lock.acquire", "other._registry.lock.acquire"),
        ("default_timers().cancel('x')", "thread_driver._default_lock.acquire", "int"),
        ("idle.forget('x')", "idle._lock.acquire", "idle._touch_lock.acquire"),
        ("cache.pop('x', None)", "cache._store._acquire", "int"),
    ],
    ids=["timers", "default timers", "idle timeouts", "cache"],
)
def test_what_a_child_drops_may_use_what_another_thread_had_locked(
    build: Build, use: str, take: str, give: str
) -> None:
    script = f"""
    for timers in (one, other):
        timers.after("1h", Payload(lambda: ({use})))
    locked = threading.Event()

    def lock():
        {take}()
        {give}()
        locked.set()
        threading.Event().wait()

    threading.Thread(target=lock, daemon=True).start()
    assert locked.wait(60)
    in_child(lambda: None)
    """
    assert run(CHILD + script, build.name).stdout == "the child ended well\n"


def test_a_timer_that_is_started_by_what_a_child_drops_is_not_forgotten(build: Build) -> None:
    script = """
    one.after("1h", Payload(lambda: other.after(1, print)))
    other.after("1h", Payload(lambda: one.after(1, print)))

    def check():
        assert (len(one), len(other)) == (1, 1), (one.stats, other.stats)

    in_child(check)
    """
    assert run(CHILD + script, build.name).stdout == "the child ended well\n"


def test_what_a_child_drops_may_cancel_other_timers_of_the_parent(build: Build) -> None:
    script = """
    handles = [one.after("1h", Payload(lambda: [handle.cancel() for handle in handles]), key=key) for key in "abc"]

    def check():
        assert all(handle.cancelled for handle in handles)
        one.after(1, print, "it ran")
        assert len(one) == 1
        one._registry.wheel.check()

    in_child(check)
    """
    assert run(CHILD + script, build.name).stdout == "the child ended well\n"
