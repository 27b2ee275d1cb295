"""The threads that hash passwords: few, of low priority, and only so many logins wait for them."""

import asyncio
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from broker.auth.authenticators.slots import MOST_WAITING, Slots

T = TypeVar("T")

THREADS: Final = max(1, (os.cpu_count() or 1) - 1)
"""Hashes computed at once; one processor is left to the event loop."""

_NICE: Final = 10
"""How much other threads precede these, by the scheduler of Linux."""


class HashingPool:
    """Runs jobs that take milliseconds outside the event loop. The libraries release the interpreter lock meanwhile."""

    def __init__(self, threads: int = THREADS, most_waiting: int = MOST_WAITING) -> None:
        self._slots = Slots(threads, most_waiting)
        self._executor = ThreadPoolExecutor(threads, "hashing", initializer=_give_way)

    async def run(self, job: Callable[[], T], address: bytes) -> T:
        """Run the job in a thread and return its result. `address`: the client's network. Raises Busy."""
        async with self._slots.of(address):
            return await asyncio.get_running_loop().run_in_executor(self._executor, job)

    def close(self) -> None:
        """Discard what waits."""
        self._slots.close()
        self._executor.shutdown(wait=False, cancel_futures=True)


def _give_way() -> None:
    """Let the event loop go first when there are fewer processors than threads that could run."""
    if sys.platform == "linux":  # there a thread has a priority of its own
        thread = threading.get_native_id()
        os.setpriority(os.PRIO_PROCESS, thread, min(19, os.getpriority(os.PRIO_PROCESS, thread) + _NICE))
