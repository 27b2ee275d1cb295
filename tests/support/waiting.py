"""Waits for a condition, with a deadline."""

import threading
import time
from collections.abc import Callable

POLL = 0.01
"""Seconds between two looks at a condition that nothing announces."""


def wait_until(condition: Callable[[], bool], what: str, seconds: float = 10.0) -> None:
    """Look at `condition` until it holds; raise TimeoutError naming `what` when `seconds` have passed."""
    pause = threading.Event()
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"after {seconds:g} s still not: {what}")
        pause.wait(POLL)
