"""No webhook goes where it should not, however the address is written and whatever a name server says."""

import asyncio
from collections.abc import Sequence

import pytest

from tests.webhooks.receivers import SECRET, Receiver, receiving, send_to
from tickwheel import aio
from tickwheel.errors import AddressRefused, InvalidTask
from tickwheel.tasks import RetryPolicy, Status, Task
from tickwheel.webhooks import Webhooks
from tickwheel.webhooks.addresses import Guard, kind_of
from tickwheel.webhooks.connecting import look_up

ONCE = RetryPolicy()

INSIDE = {
    "127.0.0.1": "loopback",
    "127.255.255.254": "loopback",
    "::1": "loopback",
    "0.0.0.0": "unspecified",
    "0.1.2.3": "unspecified",
    "::": "unspecified",
    "10.0.0.1": "private",
    "172.16.0.1": "private",
    "172.31.255.255": "private",
    "192.168.1.1": "private",
    "fd00:ec2::254": "private",  # where Amazon's machines get their credentials
    "fec0::1": "private",
    "169.254.169.254": "link-local",  # and nearly everybody's
    "fe80::1": "link-local",
    "100.100.100.200": "shared by carriers",  # Alibaba's
    "168.63.129.16": "of the host's platform",  # Azure's
    "192.0.0.192": "reserved",  # Oracle's
    "224.0.0.1": "multicast",
    "ff02::1": "multicast",
    "255.255.255.255": "broadcast",
    "240.0.0.1": "reserved",
    "198.18.0.1": "reserved",
    "192.0.2.1": "reserved",
    "2001:db8::1": "reserved",
    "2001::1": "reserved",  # Teredo: an address of IPv4 is hidden in it
    "4000::1": "reserved",
    "::ffff:127.0.0.1": "loopback",
    "::ffff:a9fe:a9fe": "link-local",
    "::127.0.0.1": "reserved",
    "64:ff9b::7f00:1": "loopback",
    "64:ff9b::a9fe:a9fe": "link-local",
    "64:ff9b:1::7f00:1": "reserved",
    "2002:7f00:1::": "loopback",
    "2002:a00:1::5": "private",
}
OUTSIDE = [
    "93.184.215.14",
    "1.1.1.1",
    "172.32.0.1",
    "100.128.0.1",
    "2606:4700::1111",
    "::ffff:1.1.1.1",
    "2002:101:101::",
]


@pytest.mark.parametrize(("address", "kind"), INSIDE.items())
def test_an_address_inside_is_known_as_one(address: str, kind: str) -> None:
    assert kind_of(address) == kind
    with pytest.raises(AddressRefused):
        Guard().check("host", address)


@pytest.mark.parametrize("address", OUTSIDE)
def test_an_address_of_the_internet_passes(address: str) -> None:
    assert kind_of(address) is None
    assert Guard().check("host", address) == address


def test_what_is_allowed_passes_and_nothing_else() -> None:
    guard = Guard(["127.0.0.0/8", "fd00::/8"])
    for address in ("127.0.0.1", "::ffff:127.0.0.1", "fd00::7"):
        assert guard.check("host", address) == address
    for address in ("10.0.0.1", "::1", "fe80::1%eth0", "169.254.169.254"):
        with pytest.raises(AddressRefused):
            guard.check("host", address)
    for wrong in ("127.0.0.1/8", "everything", "10.0.0.0/99"):
        with pytest.raises(InvalidTask, match="a network is written as"):
            Guard([wrong])


LOOPBACK_IN_WORDS = [
    "127.0.0.1", "localhost", "2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1", "017700000001", "127.1", "0",
    "[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[0:0:0:0:0:0:0:1]", "[64:ff9b::7f00:1]", "localhost.",
    "LOCALHOST", "0.0.0.0", "127.0.0.1.",
]  # fmt: skip


@pytest.mark.parametrize("host", LOOPBACK_IN_WORDS)
def test_however_this_machine_is_written_nothing_is_sent_to_it(host: str) -> None:
    async def main() -> tuple[Receiver, Task]:
        receiver = Receiver()
        async with receiving(receiver) as port:
            webhooks = Webhooks(SECRET)
            return receiver, await send_to(f"http://{host}:{port}/", webhooks=webhooks, retry=ONCE)

    receiver, task = aio.run(main())
    assert task.status is Status.FAILED
    assert receiver.got == []
    assert receiver.connections == set()
    error = task.error or ""
    assert "AddressRefused" in error or "could not be looked up" in error


class Names:
    """A name server that says what it is told, one answer after the other; the last one from then on."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self.answers = answers
        self.asked = 0

    async def resolve(self, _host: str, _port: int) -> Sequence[str]:
        self.asked += 1
        return self.answers[min(self.asked, len(self.answers)) - 1]


def post_by_name(names: Names, *, times: int = 1) -> tuple[Receiver, list[Task]]:
    async def main() -> tuple[Receiver, list[Task]]:
        receiver = Receiver()
        async with receiving(receiver) as port:
            webhooks = Webhooks(SECRET, allow=["127.0.0.1/32"], resolve=names.resolve)
            url = f"http://rebound.example:{port}/"
            return receiver, [await send_to(url, webhooks=webhooks, retry=ONCE) for _ in range(times)]

    return aio.run(main())


def test_a_name_that_leads_inside_is_refused() -> None:
    receiver, [task] = post_by_name(Names(["10.0.0.1"]))
    assert "'rebound.example' is at 10.0.0.1, which is private" in (task.error or "")
    assert receiver.got == []


def test_one_address_inside_among_others_is_enough_to_refuse_a_name() -> None:
    receiver, [task] = post_by_name(Names(["127.0.0.1", "169.254.169.254"]))
    assert "169.254.169.254, which is link-local" in (task.error or "")
    assert receiver.got == []


def test_what_was_checked_is_what_is_connected_to_whatever_the_name_says_next() -> None:
    names = Names(["127.0.0.1"], ["127.0.0.2"])
    receiver, [first, second] = post_by_name(names, times=2)
    assert first.status is Status.COMPLETED
    assert receiver.got[0].headers["host"].startswith("rebound.example:")
    assert names.asked == 2, "once for each connection"
    assert "127.0.0.2, which is loopback" in (second.error or "")
    assert len(receiver.got) == 1


def test_a_name_without_an_address_fails() -> None:
    _, [task] = post_by_name(Names([]))
    assert "has no address" in (task.error or "")


def test_the_system_is_asked_for_names() -> None:
    assert set(asyncio.run(look_up("localhost", 80))) <= {"127.0.0.1", "::1"}
