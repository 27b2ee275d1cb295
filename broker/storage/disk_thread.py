"""The thread that waits for the disk, so that the event loop does not."""

import asyncio
import sys
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Final, TypeVar

from broker.storage.records import DamagedError

T = TypeVar("T")

SLOW: Final = 30.0
"""Seconds without a finished job after which the disk is reported as slow."""

SWITCH_INTERVAL: Final = 0.001
"""Seconds after which the thread has to release the interpreter lock; Python's default of 5 ms is too long here."""


class DiskThread:
    """Runs jobs one after the other, and passes their results to the event loop.

    `name` says in the log what it writes. It is a daemon thread: a disk that hangs stops neither the event loop nor the
    end of the process.
    """

    def __init__(self, name: str) -> None:
        import structlog  # slow to import, and commands that read a journal log nothing

        self._name = name
        self._jobs: SimpleQueue[tuple[Callable[[], Any], Callable[[Any], None]] | None] = SimpleQueue()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._asked = 0
        self._done = 0
        self._watching = False
        self._slow = False
        self._log = structlog.get_logger("sluice")

    def do(self, job: Callable[[], T], done: Callable[[T | Exception], None]) -> None:
        """Queue `job`; `done` is then called with what it returned or raised.

        Both `do` and `done` are called in the event loop.
        """
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
            sys.setswitchinterval(SWITCH_INTERVAL)
            threading.Thread(target=self._run, args=(self._loop,), name=self._name, daemon=True).start()
        self._asked += 1
        self._jobs.put((job, done))
        if not self._watching:
            self._watch(self._loop)

    async def ask(self, job: Callable[[], T]) -> T:
        """Queue `job`, and return what it returns, or raise what it raises."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def done(result: T | Exception) -> None:
            if future.done():
                return
            if isinstance(result, Exception):
                future.set_exception(result)
            else:
                future.set_result(result)

        self.do(job, done)
        return await future

    def end(self) -> None:
        """End the thread when it has done what is queued."""
        self._jobs.put(None)

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        while (queued := self._jobs.get()) is not None:
            job, done = queued
            value: Any
            try:
                value = job()
            except Exception as error:
                value = error
            try:
                loop.call_soon_threadsafe(self._finish, done, value)
            except RuntimeError:
                return  # the loop is closed
            del queued, job, done, value  # free their memory while waiting for the next job

    def _finish(self, done: Callable[[Any], None], value: Any) -> None:
        self._done += 1
        if self._slow:
            self._slow = False
            self._log.info("disk_answers_again", of=self._name)
        if isinstance(value, Exception) and not isinstance(value, OSError | DamagedError):
            assert self._loop is not None
            self._loop.call_exception_handler({"message": "a job for the disk has failed", "exception": value})
        done(value)

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Check after SLOW whether a job has finished since."""
        self._watching = True
        loop.call_later(SLOW, self._check, loop, self._done)

    def _check(self, loop: asyncio.AbstractEventLoop, done: int) -> None:
        self._watching = False
        if self._done == self._asked:
            return
        if self._done == done and not self._slow:
            self._slow = True
            self._log.error("disk_slow", of=self._name, detail=f"the disk has not answered for {SLOW:g} s")
        self._watch(loop)
