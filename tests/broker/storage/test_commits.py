"""FC-27: what is part of which commit, and what waits for it."""

import asyncio
import errno

from broker.storage import records
from tests.support.broker.journaled import SlowDisk, until

RECORD = records.ended(1)


async def test_what_comes_meanwhile_shares_the_next_commit() -> None:
    """There is one commit at a time, and all that is written while it is under way is in the next one."""
    disk = SlowDisk()
    journal = disk.journal()
    assert journal.write(RECORD) == 1
    await until(lambda: disk.waiting == 1)
    assert [journal.write(RECORD) for _ in range(3)] == [2, 2, 2]
    disk.allow(2)
    await until(lambda: journal.commits.committed == 2)
    assert disk.frames == [RECORD, RECORD * 3]


async def test_a_turn_of_the_loop_is_one_commit() -> None:
    """What is written in one turn of the loop is put on disk together."""
    disk = SlowDisk()
    journal = disk.journal()
    disk.allow(2)
    assert [journal.write(RECORD) for _ in range(5)] == [1] * 5
    await until(lambda: journal.commits.committed == 1)
    assert disk.frames == [RECORD * 5]


async def test_what_nobody_waits_for() -> None:
    """It is put on disk soon nevertheless."""
    disk = SlowDisk()
    journal = disk.journal()
    disk.allow()
    journal.write_lazily(RECORD)
    await until(lambda: journal.commits.committed == 1)
    assert disk.frames == [RECORD]


async def test_at_intervals() -> None:
    """FC-28: with a duration nobody waits, and what is written is put on disk after it."""
    disk = SlowDisk()
    journal = disk.journal(sync=0.05)
    disk.allow()
    assert journal.write(RECORD) == 0
    assert journal.write(RECORD) == 0
    await until(lambda: journal.commits.committed == 1)
    assert disk.frames == [RECORD * 2]


async def test_no_room() -> None:
    """A frame that finds the disk full is tried again until there is room; until then the journal is full."""
    disk = SlowDisk()
    journal = disk.journal()
    disk.has_room = False
    journal.write(RECORD)
    disk.allow()
    await until(lambda: journal.commits.full)
    assert journal.commits.committed == 0
    disk.has_room = True
    disk.allow()
    await until(lambda: journal.commits.committed == 1)
    assert not journal.commits.full
    assert disk.frames == [RECORD]


async def test_a_commit_that_fails() -> None:
    """After an error nothing is committed any more, and the broker is told."""
    disk = SlowDisk()
    journal = disk.journal()
    told: list[bool] = []
    journal.commits.on_failed = lambda: told.append(True)
    disk.error = OSError(errno.EIO, "Input/output error")
    journal.write(RECORD)
    disk.allow(5)
    await until(lambda: bool(told))
    journal.write(RECORD)
    for _ in range(20):
        await asyncio.sleep(0)
    assert journal.commits.failed is disk.error
    assert (journal.commits.committed, disk.frames) == (0, [])
