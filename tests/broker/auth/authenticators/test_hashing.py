"""The threads that hash: how many, how many wait, and what happens to the rest."""

import asyncio
import os
import sys
import threading

import pytest

from broker.auth.authenticators.authenticator import Busy
from broker.auth.authenticators.hashing import HashingPool

HERE = b"here"
"""An address."""


async def test_no_more_than_may_wait() -> None:
    """Two run, three wait, the sixth is refused at once; when one is done there is room again."""
    pool = HashingPool(threads=2, most_waiting=3)
    release = threading.Semaphore(0)
    jobs = [asyncio.ensure_future(pool.run(lambda: release.acquire(timeout=10), HERE)) for _ in range(5)]
    await asyncio.sleep(0)
    with pytest.raises(Busy, match="3 logins"):
        await pool.run(lambda: True, HERE)
    release.release()
    done, _ = await asyncio.wait(jobs, return_when=asyncio.FIRST_COMPLETED)
    assert len(done) == 1
    release.release(10)
    assert await pool.run(lambda: "room", HERE)
    assert all(await asyncio.gather(*jobs))
    pool.close()


async def test_failures_make_room() -> None:
    """A job that raises, or that nobody waits for any more, is not counted for ever."""
    pool = HashingPool(threads=1, most_waiting=0)

    def fail() -> None:
        raise ValueError("no")

    for _ in range(3):
        with pytest.raises(ValueError, match="no"):
            await pool.run(fail, HERE)
    assert await pool.run(lambda: "room", HERE) == "room"
    pool.close()


async def test_close_discards_what_waits() -> None:
    """A broker that stops does not wait for passwords: what runs ends, what waits is cancelled."""
    pool = HashingPool(threads=1, most_waiting=1)
    begun, release = threading.Event(), threading.Semaphore(0)

    def job() -> bool:
        begun.set()
        return release.acquire(timeout=10)

    running = asyncio.ensure_future(pool.run(job, HERE))
    waiting = asyncio.ensure_future(pool.run(lambda: True, HERE))
    assert await asyncio.to_thread(begun.wait, 10)
    pool.close()
    release.release()
    assert await running
    with pytest.raises(asyncio.CancelledError):
        await waiting


@pytest.mark.skipif(sys.platform != "linux", reason="only there threads have priorities of their own")
async def test_priority() -> None:
    """The threads give way to the event loop."""
    pool = HashingPool(threads=1)

    def priority() -> int:
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    assert await pool.run(priority, HERE) == min(19, priority() + 10)
    pool.close()
