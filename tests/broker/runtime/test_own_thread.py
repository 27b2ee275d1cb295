"""Threads of their own: results, errors, and work that hangs."""

import asyncio
import subprocess
import sys
import threading

import pytest

from broker.runtime.own_thread import in_own_thread
from tests.support.process import clean_environment
from tests.support.waiting import until

HANGS = """
import asyncio, threading
from broker.runtime.own_thread import in_own_thread

async def main():
    await asyncio.wait((in_own_thread(threading.Event().wait, "hangs"),), timeout=0.01)
    print("over", flush=True)

asyncio.run(main())
"""


def fail() -> None:
    """Work that fails."""
    raise OSError("no")


async def test_results_and_errors() -> None:
    """The event loop gets what the work returns or raises."""
    assert await in_own_thread(lambda: 7, "works") == 7
    with pytest.raises(OSError, match="no"):
        await in_own_thread(fail, "fails")


async def test_work_that_nobody_waits_for() -> None:
    """What comes too late is dropped, and more work that hangs holds up none that does not."""
    going_on = threading.Event()
    late = [in_own_thread(going_on.wait, "late") for _ in range(100)]
    for each in late:
        each.cancel()
    assert await in_own_thread(lambda: 7, "works") == 7
    going_on.set()
    await until(lambda: all(thread.name != "late" for thread in threading.enumerate()))
    await asyncio.sleep(0)  # a turn of the loop, in which what comes too late would be handled
    assert all(each.cancelled() for each in late)


def test_the_process_ends() -> None:
    """A thread that hangs does not keep the interpreter from ending."""
    ended = subprocess.run(
        [sys.executable, "-c", HANGS], env=clean_environment(), capture_output=True, text=True, timeout=60, check=False
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "over\n", "")
