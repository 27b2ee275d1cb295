"""The thread that waits for the disk, so that nobody else has to."""

import asyncio
import sys
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Final, TypeVar

import structlog

T = TypeVar("T")

SLOW: Final = 30.0
"""Seconds after which a disk that does not answer is reported."""

SWITCH_INTERVAL: Final = 0.001
"""Seconds after which the thread has to hand the interpreter back; Python's own 5 ms are too long here."""


class Disk:
    """Does one job after the other in a thread of its own, and hands back to the event loop what they return.

    A daemon thread: a disk that hangs keeps neither the loop from serving nor the process from ending.
    """

    def __init__(self) -> None:
        self._jobs: SimpleQueue[tuple[Callable[[], Any], Callable[[Any], None]]] = SimpleQueue()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._asked = 0
        self._done = 0
        self._watching = False
        self._slow = False
        self._log = structlog.get_logger("sluice")

    def do(self, job: Callable[[], T], done: Callable[[T | Exception], None]) -> None:
        """Have `job` done, behind those before it; then `done` is called with what it returned or raised.

        Called in the event loop, as `done` is.
        """
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
            sys.setswitchinterval(SWITCH_INTERVAL)
            threading.Thread(target=self._run, args=(self._loop,), name="pages", daemon=True).start()
        self._asked += 1
        self._jobs.put((job, done))
        if not self._watching:
            self._watch(self._loop)

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        while True:
            job, done = self._jobs.get()
            value: Any
            try:
                value = job()
            except Exception as error:
                value = error
            try:
                loop.call_soon_threadsafe(self._finish, done, value)
            except RuntimeError:
                return  # the loop is closed: it did not wait
            del job, done, value  # they may hold a lot, and the next job may take its time to come

    def _finish(self, done: Callable[[Any], None], value: Any) -> None:
        self._done += 1
        if self._slow:
            self._slow = False
            self._log.info("paging_goes_on")
        if isinstance(value, Exception) and not isinstance(value, OSError):
            assert self._loop is not None
            self._loop.call_exception_handler({"message": "a job for the disk has failed", "exception": value})
        done(value)

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Look in a while whether the job that is being done now is done then."""
        self._watching = True
        loop.call_later(SLOW, self._look, loop, self._done)

    def _look(self, loop: asyncio.AbstractEventLoop, done: int) -> None:
        self._watching = False
        if self._done == self._asked:
            return
        if self._done == done and not self._slow:
            self._slow = True
            self._log.error("paging_slow", detail=f"the disk has not answered for {SLOW:g} s")
        self._watch(loop)
