"""Which logins are decided about next, and which are refused, when there are too many."""

import asyncio

import pytest

from broker.auth.authenticators.authenticator import Busy
from broker.auth.authenticators.slots import Slots


async def test_addresses_take_turns() -> None:
    """Whoever tries many passwords delays those from other addresses by one for each address."""
    slots = Slots(1)
    order: list[bytes] = []

    async def log_in(address: bytes) -> None:
        async with slots.of(address):
            order.append(address)
            await asyncio.sleep(0)

    await asyncio.gather(*(log_in(address) for address in (b"1", b"1", b"1", b"1", b"2", b"2", b"2", b"3")))
    assert order == [b"1", b"1", b"2", b"3", b"1", b"2", b"1", b"2"]


async def test_who_waits_most_makes_room() -> None:
    """With as many as may wait, an address with fewer logins displaces the last one of the address with most."""
    slots = Slots(1, most_waiting=4)
    release = asyncio.Event()

    async def log_in(address: bytes) -> bool:
        async with slots.of(address):
            return await release.wait()

    storm = [asyncio.ensure_future(log_in(b"storm")) for _ in range(5)]  # one has the slot
    others = [asyncio.ensure_future(log_in(address)) for address in (b"first", b"second", b"third")]
    for displaced in storm[2:]:
        with pytest.raises(Busy):
            await displaced
    for address in (b"storm", b"fourth"):  # now all addresses have one
        with pytest.raises(Busy, match="4 logins"):
            await log_in(address)
    release.set()
    assert await asyncio.gather(*storm[:2], *others) == [True] * 5


async def test_who_gives_up_waiting() -> None:
    """A login that is cancelled while it waits, or just when it has its turn, keeps no slot."""
    slots = Slots(1)

    async def log_in() -> bool:
        async with slots.of(b""):
            return await asyncio.sleep(0, True)

    running, early, late = (asyncio.ensure_future(log_in()) for _ in range(3))
    await asyncio.sleep(0)
    early.cancel()
    running.add_done_callback(lambda _: late.cancel())
    assert await running
    assert await asyncio.wait_for(log_in(), 10)
    assert early.cancelled()
    assert late.cancelled()
