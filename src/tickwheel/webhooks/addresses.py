"""Where webhooks may go: addresses of the internet, and no others unless they are allowed.

Whoever may add a task could otherwise have this machine speak to its neighbours, to itself, or to the service that
hands out the machine's own credentials:

>>> kind_of("169.254.169.254"), kind_of("::ffff:127.0.0.1"), kind_of("64:ff9b::a00:1")
('link-local', 'loopback', 'private')
>>> kind_of("93.184.215.14") is None
True

How an address was written does not matter (0x7f.1, 2130706433, a name): what is looked at is what the system makes of
it, right before it is connected to.
"""

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

from tickwheel.errors import AddressRefused, InvalidTask

__all__ = ["Guard", "kind_of"]

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

# From IANA's registries of special-purpose addresses, in our own words: what Python knows of them differs by version.
INSIDE: Final[dict[str, tuple[str, ...]]] = {
    "unspecified": ("0.0.0.0/8", "::/128"),
    "loopback": ("127.0.0.0/8", "::1/128"),
    "private": ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7", "fec0::/10"),
    "link-local": ("169.254.0.0/16", "fe80::/10"),
    "shared by carriers": ("100.64.0.0/10",),
    "multicast": ("224.0.0.0/4", "ff00::/8"),
    "broadcast": ("255.255.255.255/32",),
    "of the host's platform": ("168.63.129.16/32",),  # Azure answers there, though it is an address like others
    "reserved": (
        *("192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24"),
        *("240.0.0.0/4", "::/8", "100::/64", "2001::/23", "2001:db8::/32", "3fff::/20", "5f00::/16"),
    ),
}
TABLE: Final = [(kind, ip_network(network)) for kind, networks in INSIDE.items() for network in networks]
GLOBAL_UNICAST: Final = IPv6Network("2000::/3")  # all that was given out of IPv6 so far

# Addresses of IPv6 that lead to one of IPv4, and how many bits come after it.
WRAPPED: Final[tuple[tuple[IPv6Network, int], ...]] = (
    (IPv6Network("::ffff:0:0/96"), 0),  # mapped
    (IPv6Network("64:ff9b::/96"), 0),  # NAT64
    (IPv6Network("2002::/16"), 80),  # 6to4
)
NETWORKS_MAX: Final = 100


def kind_of(address: str | Address) -> str | None:
    """Say what kind of inside address one is; None if it is one of the internet."""
    bare = unwrap(ip_address(address))
    for kind, network in TABLE:
        if bare in network:
            return kind
    return "reserved" if isinstance(bare, IPv6Address) and bare not in GLOBAL_UNICAST else None


def unwrap(address: Address) -> Address:
    """Return the address that one leads to."""
    if isinstance(address, IPv6Address):
        for network, bits in WRAPPED:
            if address in network:
                return IPv4Address(int(address) >> bits & 0xFFFF_FFFF)
    return address


class Guard:
    """Lets addresses of the internet pass, and those of networks that are allowed."""

    def __init__(self, allowed: Iterable[str] = ()) -> None:
        self._allowed: list[Network] = []
        for network in allowed:
            try:
                self._allowed.append(ip_network(network))
            except ValueError as error:
                raise InvalidTask(f"a network is written as 10.1.0.0/16 or fd00::/8: {error}") from None
        if len(self._allowed) > NETWORKS_MAX:
            raise InvalidTask(f"at most {NETWORKS_MAX} networks can be allowed, not {len(self._allowed)}")

    def check(self, host: str, address: str) -> str:
        """Return an address that may be connected to, for a host; raise `AddressRefused` for any other."""
        bare = unwrap(ip_address(address.partition("%")[0]))
        kind = kind_of(bare)
        if kind is not None and not any(bare in network for network in self._allowed):
            raise AddressRefused(host, str(bare), kind)
        return address
