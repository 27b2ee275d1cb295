"""FC-27: which records are in which commit, and what waits for it."""

import asyncio
import errno
from typing import Final

from broker.storage import records
from broker.storage.commits import LONG_PAUSE, NO_ROOM_PAUSE
from broker.storage.frame import HEAD_SIZE, SECTOR
from broker.storage.reserve import Reserve
from tests.support.broker.journaled import SlowDisk
from tests.support.waiting import until

RECORD = records.ended(1)
SMALL: Final = HEAD_SIZE + 3 * len(RECORD) - 1
"""Bytes that a frame of three records exceeds, and one of two does not."""


async def test_what_comes_meanwhile_shares_the_next_commit() -> None:
    """One commit runs at a time; records written meanwhile share the next one."""
    disk = SlowDisk()
    journal = disk.journal()
    assert journal.write(RECORD) == 1
    await until(lambda: disk.waiting == 1)
    assert [journal.write(RECORD) for _ in range(3)] == [2, 2, 2]
    disk.allow(2)
    await until(lambda: journal.commits.committed == 2)
    assert disk.frames == [RECORD, RECORD * 3]


async def test_a_turn_of_the_loop_is_one_commit() -> None:
    """Records of one turn of the loop share a commit."""
    disk = SlowDisk()
    journal = disk.journal()
    disk.allow(2)
    assert [journal.write(RECORD) for _ in range(5)] == [1] * 5
    await until(lambda: journal.commits.committed == 1)
    assert disk.frames == [RECORD * 5]


async def test_what_nobody_waits_for() -> None:
    """Records that no packet waits for are committed soon too."""
    disk = SlowDisk()
    journal = disk.journal()
    disk.allow()
    journal.write_lazily(RECORD)
    await until(lambda: journal.commits.committed == 1)
    assert disk.frames == [RECORD]


async def test_at_intervals() -> None:
    """FC-28: with a duration no packet waits, and records are committed after that time."""
    disk = SlowDisk()
    journal = disk.journal(sync=0.05)
    disk.allow()
    assert journal.write(RECORD) == 0
    assert journal.write(RECORD) == 0
    await until(lambda: journal.commits.committed == 1)
    assert disk.frames == [RECORD * 2]


async def test_no_room() -> None:
    """A commit on a full disk is repeated until there is room; until then the journal is full."""
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


async def test_no_room_even_for_what_frees_space() -> None:
    """FC-29: the broker is told when a commit finds no room at all, and when it has been written."""
    disk = SlowDisk()
    journal = disk.journal()
    told: list[bool] = []
    journal.commits.on_stuck = told.append
    disk.has_room = False
    journal.write(RECORD)
    disk.allow(2)
    await until(lambda: told == [True])
    disk.has_room = True
    disk.allow()
    await until(lambda: told == [True, False])


async def test_what_is_written_once_more() -> None:
    """FC-29: sessions pull nothing while a quarter of a segment waits, or if too little would be left."""
    disk = SlowDisk()
    commits = disk.journal().commits
    left = 10 * SECTOR
    commits.room = lambda: False
    commits.reserve = Reserve(lambda: left, 4 * SECTOR)
    assert (commits.may_move(), commits.pull_pause()) == (True, 0)
    commits.add(bytes(SECTOR))
    assert commits.pull_pause() == LONG_PAUSE
    disk.allow()
    await until(lambda: commits.committed == 1)  # a long commit begins at once
    commits.check_room()
    disk.allow()
    await until(lambda: commits.full)
    assert (commits.may_move(), commits.pull_pause()) == (True, 0)
    left = 7 * SECTOR - 1
    assert (commits.may_move(), commits.pull_pause()) == (False, NO_ROOM_PAUSE)


async def test_a_file_that_cannot_be_made_meanwhile() -> None:
    """FC-29: if only the reserve is left the disk is full, though the last look saw room; it is looked at again."""
    disk = SlowDisk()
    commits = disk.journal().commits
    commits.room = lambda: True
    told: list[bool] = []
    commits.on_full = told.append
    left = 2 * SECTOR
    commits.reserve = Reserve(lambda: left, SECTOR)
    commits.add(RECORD)
    commits.soon()
    disk.allow()
    await until(lambda: commits.committed == 1)
    assert (commits.has_room(), told) == (False, [True])
    left = 3 * SECTOR
    await until(lambda: told == [True, False])
    assert commits.has_room()


async def test_no_more_than_max_bytes() -> None:
    """FC-29: `max_bytes` is reported as a full disk is: once, and again when a sixteenth of it is free."""
    disk = SlowDisk()
    commits = disk.journal().commits
    commits.room = lambda: True
    told: list[bool] = []
    commits.on_full = told.append
    commits.max_bytes = 32 * SECTOR
    commits.begin_after(1, 32 * SECTOR)
    commits.check_room()
    await until(lambda: told == [True])
    assert not commits.has_room()
    commits.size -= SECTOR + 1  # compaction has freed less than that
    commits.check_room()
    disk.allow()
    commits.add(RECORD)
    commits.soon()
    await until(lambda: commits.committed == 2)
    assert told == [True]
    commits.size -= 2 * SECTOR
    await until(lambda: told == [True, False])
    assert commits.has_room()


async def test_a_commit_that_fails() -> None:
    """After an error there are no more commits, and the broker is told."""
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
        await asyncio.sleep(0)  # a turn of the loop, in which it could commit
    assert journal.commits.failed is disk.error
    assert (journal.commits.committed, disk.frames) == (0, [])


async def test_a_long_commit_is_several_frames() -> None:
    """No frame has much more than MOST_WAITING bytes, however much waits; the frames of a commit return together."""
    disk = SlowDisk()
    journal = disk.journal()
    journal.commits.most_waiting = SMALL
    assert journal.write(RECORD) == 1
    await until(lambda: disk.waiting == 1)
    assert [journal.write(RECORD) for _ in range(8)] == [2, 2, 2, 3, 3, 3, 4, 4]
    disk.allow()
    await until(lambda: disk.waiting == 2)
    assert (journal.commits.committed, disk.frames) == (1, [RECORD])
    disk.allow()
    await until(lambda: journal.commits.committed == 4)
    assert disk.frames == [RECORD, RECORD * 3, RECORD * 3, RECORD * 2]
    assert journal.commits.size == sum(frame.size for frame in journal.frames.values())


async def test_much_is_not_put_off() -> None:
    """FC-28: with a duration a commit begins at once when more than MOST_WAITING bytes wait for it."""
    disk = SlowDisk()
    journal = disk.journal(sync=3600)
    journal.commits.most_waiting = SMALL
    disk.allow()
    assert [journal.write(RECORD) for _ in range(3)] == [0, 0, 0]
    await until(lambda: journal.commits.committed == 1)
    assert disk.frames == [RECORD * 3]


async def test_all_is_reached() -> None:
    """A broker that stops has all frames on disk when `reach` returns."""
    disk = SlowDisk()
    journal = disk.journal(sync=3600)
    journal.commits.most_waiting = SMALL
    disk.allow()
    for _ in range(7):
        journal.write(RECORD)
    await journal.commits.reach()
    assert disk.frames == [RECORD * 3, RECORD * 3, RECORD]
    assert not journal.commits.waits()


async def test_no_room_for_several_frames() -> None:
    """A commit of several frames that finds the disk full is repeated with all of them, under the same numbers."""
    disk = SlowDisk()
    journal = disk.journal()
    journal.commits.most_waiting = SMALL
    disk.has_room = False
    for _ in range(4):
        journal.write(RECORD)
    disk.allow()
    await until(lambda: journal.commits.full)
    journal.write(RECORD)
    disk.has_room = True
    disk.allow(2)
    await until(lambda: journal.commits.committed == 3)
    assert disk.frames == [RECORD * 3, RECORD, RECORD]
