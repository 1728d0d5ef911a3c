"""Finding the server: at its address, or where sentinels say that the master is now.

Whoever answers first is believed. One that does not know yet that there is another master sends us to a server that is
away, or only reads; then it is asked again.
"""

from collections.abc import Awaitable, Callable

from redis.exceptions import ConnectionError as NoConnectionError

from tickwheel.stores.redis.address import Address
from tickwheel.stores.redis.connections import Place, ask, checked, connect
from tickwheel.stores.redis.failures import AWAY, UnknownMaster

__all__ = ["locating"]


def locating(address: Address) -> Callable[[], Awaitable[Place]]:
    """Return how to find the server."""

    async def known() -> Place:
        return address.hosts[0]

    async def told_by_sentinels() -> Place:
        failure: Exception = NoConnectionError("there is no sentinel")
        for sentinel in address.hosts:
            try:
                return await _ask(address, sentinel)
            except AWAY as error:
                failure = error
        raise failure

    return told_by_sentinels if address.service else known


async def _ask(address: Address, sentinel: Place) -> Place:
    connection = await connect(address, sentinel, (None, address.sentinel_password))
    try:
        [place] = checked(await ask(connection, [["SENTINEL", "GET-MASTER-ADDR-BY-NAME", address.service]]))
    finally:
        await connection.disconnect(nowait=True)
    if place is None:
        raise UnknownMaster(f"no master is called {address.service}")
    host, port = place
    return host.decode(), int(port)
