"""Wrong logins from several addresses, half of them with names of users that exist."""

import asyncio
from contextlib import suppress

from tests.bench.storms.plan import VICTIMS, Plan, Tally, victim
from tests.bench.storms.wire import Wire

STEP = 0.02
"""Seconds between two looks at how many are due."""
MOST_WAITING = 2_000
"""Logins that wait for their answer. Past that none is tried, so that the file descriptors last."""


async def wrong_logins(plan: Plan, tally: Tally) -> None:
    """Try `plan.logins` passwords a second."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    waiting: set[asyncio.Task[None]] = set()
    number = 0
    try:
        while True:
            while number < (loop.time() - began) * plan.logins and len(waiting) < MOST_WAITING:
                task = loop.create_task(_guess(plan, number, tally))
                waiting.add(task)
                task.add_done_callback(waiting.discard)
                number += 1
            tally.ready = number >= plan.logins
            await asyncio.sleep(STEP)
    finally:
        for task in waiting:
            task.cancel()


async def _guess(plan: Plan, number: int, tally: Tally) -> None:
    user = victim(number // 2 % VICTIMS) if number % 2 else f"nobody-{number}"
    tally.counts["tried"] += 1
    with suppress(OSError):
        async with await Wire.open(plan.tcp, f"127.0.1.{number % plan.addresses + 1}") as wire:
            code = await wire.enter(user, f"guess {number}")
            tally.counts[f"0x{code:02X}"] += 1
            return
    tally.counts["closed"] += 1
