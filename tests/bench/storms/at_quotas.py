"""Two users who want more of everything than their quotas allow: one counts messages, the other one bytes."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from protocol.acknowledgements import Puback
from protocol.publish import Publish, encode_publish
from protocol.subscribe import Subscribe, Subscription
from tests.bench.storms.plan import ANN, BOB, PASSWORD, Plan, Tally
from tests.bench.storms.wire import Wire

QUOTAS: list[dict[str, Any]] = [
    {
        "users": [ANN],
        "max_connections": 5,
        "max_subscriptions": 10,
        "max_retained_messages": 50,
        "producer_max_rate": 100,
        "max_inflight": 4,
        "max_mqueue_len": 50,
    },
    {
        "users": [BOB],
        "max_kept_sessions": 2,
        "max_subscriptions": 1_000,
        "max_filter_levels": 4,
        "max_retained_bytes": "50KB",
        "producer_max_bytes": "100KB",
        "max_mqueue_bytes": "50KB",
    },
]
"""What their quotas are."""
REACHED = {key for quota in QUOTAS for key in quota} - {"users", "max_inflight", "max_mqueue_len", "max_mqueue_bytes"}
"""Limits whose reaching is an event of quotas; windows and queues have their own (FC-1, FC-5)."""
SIZE = 500
"""Bytes of a payload."""
PAUSE = 0.02
"""Seconds between two attempts to connect."""
AGAIN = 0.1
"""Seconds after which somebody who has been closed comes back."""

Greedy = Callable[[Plan, str, Tally], Awaitable[None]]


async def _stay(plan: Plan, user: str, client_id: str) -> Wire:
    """A connection of a user, as soon as there is room for it."""
    while True:
        wire = await Wire.open(plan.tcp, "127.0.3.1")
        entered = False
        try:
            entered = await wire.enter(user, PASSWORD, client_id) == 0
        finally:
            if not entered:
                await wire.__aexit__()
        if entered:
            return wire
        await asyncio.sleep(PAUSE)  # until it tries again


async def _connect(plan: Plan, user: str, tally: Tally) -> None:
    """Connect more clients than there may be, whose sessions are to be kept."""
    held: list[Wire] = []
    number = 0
    try:
        while True:
            number += 1
            wire = await Wire.open(plan.tcp, "127.0.3.2")
            held.append(wire)
            code = await wire.enter(user, PASSWORD, f"{user}-more-{number}", expiry=60)
            tally.counts[f"connect 0x{code:02X}"] += 1
            if len(held) > 3:
                await held.pop(0).__aexit__()
            await asyncio.sleep(PAUSE)  # its pace
    finally:
        for wire in held:
            await wire.__aexit__()


async def _subscribe(plan: Plan, user: str, tally: Tally) -> None:
    """Subscribe to more and more, and to deeper filters."""
    number = 0
    async with await _stay(plan, user, f"{user}-subscriber") as wire:
        while True:
            number += 1
            filters = [Subscription(f"s/{number}", 1), Subscription(f"a/b/c/d/{number}", 1)]
            wire.send(Subscribe(1, filters).encode(5))
            await wire.receive()
            tally.counts["subscribed"] += 1


def _publish(retain: bool) -> Greedy:
    """Publish as fast as the broker reads."""

    async def run(plan: Plan, user: str, tally: Tally) -> None:
        number = 0
        async with await _stay(plan, user, f"{user}-publisher-{retain}") as wire:
            while True:
                number += 1
                topic = f"{user}/kept/{number}" if retain else f"{user}/flood"
                wire.send(encode_publish(topic.encode(), bytes(SIZE), 0, retain, False, 0, None, 5))
                await wire.drain()
                tally.counts["published"] += 1

    return run


async def _read_slowly(plan: Plan, user: str, tally: Tally) -> None:
    """Receive what the same user publishes, one message a second: the queue is always full."""
    async with await _stay(plan, user, f"{user}-slow") as wire:
        wire.send(Subscribe(1, [Subscription(f"{user}/flood", 1)]).encode(5))
        while True:
            packet = await wire.receive()
            if isinstance(packet, Publish):
                tally.counts["received"] += 1
                if packet.qos:
                    wire.send(Puback(packet.packet_id).encode(5))
                await asyncio.sleep(1)  # its pace


GREEDY: list[Greedy] = [_connect, _subscribe, _publish(True), _publish(False), _read_slowly]


async def at_quotas(plan: Plan, tally: Tally) -> None:
    """Both users, in every way."""

    async def again_and_again(greedy: Greedy, user: str) -> None:
        while True:
            with suppress(OSError):
                await greedy(plan, user, tally)
            tally.counts["closed"] += 1
            await asyncio.sleep(AGAIN)  # until it connects again

    async with asyncio.TaskGroup() as group:
        for user in (ANN, BOB):
            for greedy in GREEDY:
                group.create_task(again_and_again(greedy, user))
        await asyncio.sleep(1)  # all of them have begun by then
        tally.ready = True
