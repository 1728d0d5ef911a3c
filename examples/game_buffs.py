"""Game buffs: timers on a clock of the game's own, which pauses, speeds up, and forgets a player at once."""

from tickwheel import ManualTimers
from tickwheel.wheels import GAME


def main() -> None:
    """Play a minute."""
    world = ManualTimers(geometry=GAME)

    def say(what: str) -> None:
        print(f"{world.now_ns() / 1e9:6.2f} s  {what}")

    world.after(10, say, "Ada's shield wears off", group="Ada")
    world.every(2, say, "Ada regains health", times=3, group="Ada")
    world.after(12, say, "Bob's haste wears off", group="Bob")
    world.after(30, say, "the night begins")

    world.advance(5)
    world.pause()
    world.advance(3600)  # the players are at lunch: nothing happens
    world.resume()
    print(f"{world.cancel_group('Bob')} timer of Bob's forgotten: he left")
    world.speed = 2.0  # fast forward
    world.advance(30)
    world.stop()


if __name__ == "__main__":
    main()
