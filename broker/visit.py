"""Does something to all clients, in slices: what a change of the configuration needs."""

import gc
from collections.abc import Callable
from typing import Final

from broker.clients import Client, Clients
from broker.telemetry.slices import STEP, Slices

MIDDLE_GENERATION: Final = 1
"""The garbage collector's: what it has searched there is not searched again (broker/server/garbage.py)."""


async def visit(clients: Clients, action: Callable[[Client], None]) -> None:
    """Call `action` for all clients: for 100,000 it may take a second."""
    slices = Slices()
    for number, client in enumerate(clients.each(), 1):
        action(client)
        if number % STEP == 0:
            # Objects that are replaced do not count as new: the next search would meet all of them.
            gc.collect(MIDDLE_GENERATION)
            await slices.breathe()
