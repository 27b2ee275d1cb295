"""Runs what may hang in a thread of its own."""

import asyncio
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


def in_own_thread(work: Callable[[], T], name: str) -> "asyncio.Future[T]":
    """Run `work` in a daemon thread; who waits no longer cancels the future, and what `work` returns is dropped.

    What hangs there, such as a file system of the network, holds up nobody else and not the end of the process: the
    interpreter waits for the threads of a ThreadPoolExecutor when it exits, and work that hangs uses them up.
    """
    return _Running(work).start(name)


class _Running(Generic[T]):
    """Without cycles, which would be left to the garbage collector: compiled functions within a function are one."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._loop = asyncio.get_running_loop()
        self._done: asyncio.Future[T] | None = None

    def start(self, name: str) -> "asyncio.Future[T]":
        """Start the thread."""
        done = self._done = self._loop.create_future()
        threading.Thread(target=self._run, name=name, daemon=True).start()
        return done

    def _run(self) -> None:
        """Called in the thread."""
        results: list[T] = []
        try:
            results.append(self._work())
        except Exception as error:
            self._tell(results, error)
        else:
            self._tell(results, None)

    def _tell(self, results: list[T], error: Exception | None) -> None:
        try:
            self._loop.call_soon_threadsafe(self._finish, results, error)
        except RuntimeError:
            pass  # the loop is closed: nobody waits

    def _finish(self, results: list[T], error: Exception | None) -> None:
        done, self._done = self._done, None  # the traceback of an error refers to this object
        if done is None or done.done():
            return
        if error is None:
            done.set_result(results[0])
        else:
            done.set_exception(error)
