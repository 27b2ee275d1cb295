"""Waits for a condition, with a deadline."""

import asyncio
import threading
import time
from collections.abc import Callable

SHORTEST, LONGEST = 0.01, 0.05
"""Seconds between two looks at a condition that nothing announces: more and more, for a look may ask the broker."""


def wait_until(condition: Callable[[], bool], what: str, seconds: float = 30.0) -> None:
    """Look at `condition` until it holds; raise TimeoutError naming `what` when `seconds` have passed."""
    pause, between = threading.Event(), SHORTEST
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"after {seconds:g} s still not: {what}")
        pause.wait(between)
        between = min(between * 1.2, LONGEST)


async def until(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    """The same in an event loop, which goes on meanwhile. Raises TimeoutError."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - what it is about happens in a thread, or sets no event
            await asyncio.sleep(0.001)
