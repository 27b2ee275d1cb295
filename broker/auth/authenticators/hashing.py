"""The threads that hash passwords: few, of low priority, and only so many logins wait for them."""

import asyncio
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from broker.auth.authenticators.authenticator import Busy

T = TypeVar("T")

THREADS: Final = max(1, (os.cpu_count() or 1) - 1)
"""Hashes computed at once; one processor is left to the event loop."""

MOST_WAITING: Final = 256
"""Logins that may wait for a thread. More would be refused by their time limit anyway (mqtt.connect_timeout)."""

_NICE: Final = 10
"""How much other threads precede these, by the scheduler of Linux."""


class HashingPool:
    """Runs jobs that take milliseconds outside the event loop. The libraries release the interpreter lock meanwhile."""

    def __init__(self, threads: int = THREADS, most_waiting: int = MOST_WAITING) -> None:
        self._most = threads + most_waiting
        self._running = 0
        self._executor = ThreadPoolExecutor(threads, "hashing", initializer=_give_way)

    async def run(self, job: Callable[[], T]) -> T:
        """Run the job in a thread and return its result. Raises Busy if too many wait."""
        if self._running >= self._most:
            raise Busy(f"{self._running} logins wait for their passwords to be hashed")
        self._running += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._executor, job)
        finally:
            self._running -= 1

    def close(self) -> None:
        """Discard what waits."""
        self._executor.shutdown(wait=False, cancel_futures=True)


def _give_way() -> None:
    """Let the event loop go first when there are fewer processors than threads that could run."""
    if sys.platform == "linux":  # there a thread has a priority of its own
        thread = threading.get_native_id()
        os.setpriority(os.PRIO_PROCESS, thread, min(19, os.getpriority(os.PRIO_PROCESS, thread) + _NICE))
