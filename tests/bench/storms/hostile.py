"""A client that reads nothing but acknowledges guessed packet ids, and a session in thousands of shared groups."""

import asyncio
from contextlib import suppress

from protocol.acknowledgements import Puback
from protocol.publish import encode_publish
from protocol.subscribe import Subscribe, Subscription
from tests.bench.storms.plan import EVE, PASSWORD, Plan, Tally
from tests.bench.storms.wire import Wire

DEAF = "eve/deaf"
GROUPS = "eve/groups"
SIZE = 1_000
"""Bytes of a payload."""
AT_ONCE = 500
"""Filters of one SUBSCRIBE, and guesses in one piece."""
SLOWER = 50
"""How much rarer messages for the groups are than those for the client that does not read: each is for all groups."""
AGAIN = 0.1


async def _enter(plan: Plan, client_id: str) -> Wire:
    wire = await Wire.open(plan.tcp, "127.0.4.1")
    code = await wire.enter(EVE, PASSWORD, client_id)
    if code:
        raise ConnectionError(f"{client_id} was refused with 0x{code:02X}")
    return wire


async def _publish(plan: Plan, topic: str, per_second: float, tally: Tally) -> None:
    """Publish at a rate; PUBACKs are read and forgotten."""
    async with await _enter(plan, f"eve-publishes-{topic}") as wire, asyncio.TaskGroup() as group:

        async def read() -> None:
            while True:
                await wire.receive()

        group.create_task(read())
        number = 0
        while True:
            number += 1
            wire.send(encode_publish(topic.encode(), bytes(SIZE), 1, False, False, number % 65_535 + 1, None, 5))
            await wire.drain()
            tally.counts[f"published to {topic}"] += 1
            await asyncio.sleep(1 / per_second)


async def _guess(plan: Plan, tally: Tally) -> None:
    """Acknowledge all packet ids in turn, whatever has been sent; read nothing."""
    async with await _enter(plan, "eve-deaf") as wire:
        wire.send(Subscribe(1, [Subscription(DEAF, 1)]).encode(5))
        await wire.receive()
        wire.deaf()
        first = 1
        while True:
            last = min(first + AT_ONCE, 65_536)
            wire.send(b"".join(Puback(packet_id).encode(5) for packet_id in range(first, last)))
            tally.counts["guessed"] += last - first
            first = last if last < 65_536 else 1
            await wire.drain()
            await asyncio.sleep(0.01)


async def _join(plan: Plan, tally: Tally) -> None:
    """Join so many groups, and read nothing."""
    async with await _enter(plan, "eve-groups") as wire:
        for first in range(0, plan.groups, AT_ONCE):
            numbers = range(first, min(first + AT_ONCE, plan.groups))
            filters = [Subscription(f"$share/g{number}/{GROUPS}", 1) for number in numbers]
            wire.send(Subscribe(1, filters).encode(5))
            await wire.receive()
            tally.counts["groups"] += len(numbers)
        tally.ready = True
        wire.deaf()
        await _publish(plan, GROUPS, plan.messages / SLOWER, tally)


async def hostile(plan: Plan, tally: Tally) -> None:
    """All of them."""

    async def again_and_again(name: str) -> None:
        while True:
            with suppress(OSError, ExceptionGroup):
                if name == "guess":
                    await _guess(plan, tally)
                elif name == "join":
                    await _join(plan, tally)
                else:
                    await _publish(plan, DEAF, plan.messages, tally)
            tally.counts[f"{name} closed"] += 1
            await asyncio.sleep(AGAIN)

    async with asyncio.TaskGroup() as group:
        for name in ("guess", "join", "publish"):
            group.create_task(again_and_again(name))
