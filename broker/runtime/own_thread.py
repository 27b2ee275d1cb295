"""Runs what may hang in a thread of its own."""

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def in_own_thread(work: Callable[[], T], name: str) -> "asyncio.Future[T]":
    """Run `work` in a daemon thread; who waits no longer cancels the future, and what `work` returns is dropped.

    What hangs there, such as a file system of the network, holds up nobody else and not the end of the process: the
    interpreter waits for the threads of a ThreadPoolExecutor when it exits, and work that hangs uses them up.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def finish(results: list[T], error: Exception | None) -> None:
        if done.done():
            return
        if error is None:
            done.set_result(results[0])
        else:
            done.set_exception(error)

    def run() -> None:
        results: list[T] = []
        raised: Exception | None = None
        try:
            results.append(work())
        except Exception as error:
            raised = error
        try:
            loop.call_soon_threadsafe(finish, results, raised)
        except RuntimeError:
            pass  # the loop is closed: nobody waits

    threading.Thread(target=run, name=name, daemon=True).start()
    return done
