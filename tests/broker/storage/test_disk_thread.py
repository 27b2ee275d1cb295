"""The thread that waits for the disk: the loop goes on whatever the disk does."""

import asyncio
import threading
import weakref
from typing import Any

import pytest
from structlog.testing import capture_logs

from broker.storage import disk_thread
from broker.storage.disk_thread import DiskThread
from tests.support.waiting import until

pytestmark = pytest.mark.once


async def test_in_order() -> None:
    """Jobs are done one after the other, and each result comes back in the loop; an error of the disk is one too."""
    disk = DiskThread("journal")
    came: list[object] = []

    def fail() -> int:
        raise OSError("no room")

    for number in range(3):
        disk.do(lambda number=number: number, came.append)  # type: ignore[misc]
    disk.do(fail, lambda result: came.append(str(result)))
    await until(lambda: len(came) == 4)
    assert came == [0, 1, 2, "no room"]


async def test_a_disk_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that does not answer keeps nobody: the log says so, and says when it answers again."""
    monkeypatch.setattr(disk_thread, "SLOW", 0.01)
    stuck = threading.Event()
    disk = DiskThread("journal")
    done: list[object] = []
    with capture_logs() as logs:
        disk.do(stuck.wait, done.append)
        await until(lambda: len(logs) > 0)
        assert [(log["event"], log["of"]) for log in logs] == [("disk_slow", "journal")]
        stuck.set()
        await until(lambda: len(done) > 0)
        assert [log["event"] for log in logs] == ["disk_slow", "disk_answers_again"]


async def test_nothing_is_held() -> None:
    """While the thread waits for the next job, it does not keep what the last one has read or written."""
    results: list[weakref.ref[set[int]]] = []
    finished: list[object] = []

    def job() -> set[int]:
        result = {1}
        results.append(weakref.ref(result))
        return result

    DiskThread("journal").do(job, lambda _: finished.append(True))
    await until(lambda: len(finished) > 0)
    await until(lambda: results[0]() is None)


async def test_a_bug_is_no_dead_end() -> None:
    """An error that nobody thought of is reported, comes back like a result, and the next job is done."""
    crashes: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: crashes.append(context))
    disk = DiskThread("journal")
    came: list[object] = []

    def bug() -> None:
        raise TypeError

    disk.do(bug, came.append)
    disk.do(lambda: 5, came.append)
    await until(lambda: len(came) == 2)
    assert isinstance(came[0], TypeError)
    assert came[1] == 5
    assert [type(crash["exception"]) for crash in crashes] == [TypeError]
