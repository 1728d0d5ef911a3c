"""Drive a wheel by hand: connection timeouts, most of which never fire.

A server sets a timeout for each connection, pushes it back whenever a packet comes, and drops it when the
connection ends. Here a thousand connections live through ten minutes in no time at all.
"""

from random import Random

from tickwheel.wheels import DEFAULT, HierarchicalWheel

TICKS_A_SECOND = 1_000_000_000 // DEFAULT.tick_ns
TIMEOUT = 30 * TICKS_A_SECOND


def main() -> None:
    """Open connections, keep some of them busy, and count those that time out."""
    chance = Random(7)
    wheel = HierarchicalWheel(DEFAULT)
    for number in range(1000):
        wheel.start(TIMEOUT, number, key=number)

    timed_out: list[object] = []
    for second in range(600):
        for number in range(0, 1000, 2):  # the even ones are busy
            connection = wheel.find(number)
            if connection is not None and chance.random() < 0.5:
                wheel.restart(connection, TIMEOUT)
        timed_out += [timer.take() for timer in wheel.advance((second + 1) * TICKS_A_SECOND)]

    idle = sum(1 for number in timed_out if isinstance(number, int) and number % 2)
    print(f"{idle} of 500 idle connections timed out, {len(timed_out) - idle} of 500 busy ones")
    print(wheel.stats)
    wheel.close()


if __name__ == "__main__":
    main()
