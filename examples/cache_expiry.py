"""A cache in front of something slow: prices are good for a while, and then asked for again.

    python examples/cache_expiry.py

An expired item is never handed out. With timers its memory is freed when its time is over, whether anyone looks or not.
In memory: a cache may be lost at any time, and is filled again.
"""

from time import sleep

from tickwheel import Timers, TTLCache
from tickwheel.recipes.ttl_cache import Cause

asked: list[str] = []


def ask(product: str) -> float:
    """Ask the slow service for a price."""
    asked.append(product)
    return len(product) * 1.5


def told(product: str, price: float, cause: Cause) -> None:
    """Note what leaves the cache, and why."""
    print(f"{product} at {price} is gone: {cause}")


def main() -> None:
    """Ask for prices, again and again."""
    with Timers() as timers:
        prices: TTLCache[str, float] = TTLCache(maxsize=2, ttl="1s", timers=timers, on_evict=told)

        def price(product: str) -> float:
            found = prices.get(product)
            if found is None:
                found = prices[product] = ask(product)
            return found

        for _ in range(1000):
            price("tea")
        print(f"1000 questions, {len(asked)} to the service")
        price("coffee")
        prices.set("milk", 1.0, ttl="1h")  # a time to live of its own; the least recently used makes room
        sleep(1.5)
        print(f"{len(prices)} left: {', '.join(prices)}")


if __name__ == "__main__":
    main()
