"""Scripts that signals interrupt at random moments.

A signal comes after a random time of microseconds, again and again, so that it comes at every moment some time. Each
script runs in a process of its own, since what it breaks may hang or crash.
"""

from textwrap import dedent

from tests.wheels.processes import run

INTERRUPTS = """
    import random, signal, threading

    class Interrupt(KeyboardInterrupt):
        pass

    def interrupt(*_):
        raise Interrupt

    signal.signal(signal.SIGALRM, interrupt)
    rng = random.Random(7)

    def repeat(call):
        '''Call something again and again until a signal ends it.'''
        try:
            signal.setitimer(signal.ITIMER_REAL, rng.uniform(1e-6, 3e-4), 0.01)  # again: an error may swallow one
            while True:
                call()
        except Interrupt:
            while True:
                try:
                    signal.setitimer(signal.ITIMER_REAL, 0)
                    return
                except Interrupt:
                    continue

    def interrupt_once(call):
        '''Call something once, with one signal at most: for what clears up after one.'''
        try:
            signal.setitimer(signal.ITIMER_REAL, rng.uniform(1e-6, 5e-5))
            call()
            signal.setitimer(signal.ITIMER_REAL, 0)
        except Interrupt:
            pass
"""


def said(script: str, build_name: str) -> str:
    """Return what a script says that may use the above, without the errors of callbacks and destructors."""
    done = run(dedent(INTERRUPTS) + dedent(script), build_name)
    assert "AttributeError" not in done.stderr
    return done.stdout
