"""Group commit: writes frame by frame to disk, and notifies the connections that wait for a frame (FC-27, FC-28).

All that is added until a commit begins is in it. There is one commit at a time, and the next begins when it has
returned: all that a busy broker writes meanwhile shares one sync. It is one frame, or several if it is long, as
compaction has a whole frame in memory. They are on disk together or not at all, so what belongs together may be in
several of them.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, final

from broker.runtime.barrier import Barrier
from broker.runtime.endpoint import Endpoint
from broker.runtime.read_gate import COMMIT, ReadGate
from broker.storage.disk_thread import DiskThread
from broker.storage.errors import StorageError
from broker.storage.frame import HEAD_SIZE, padded
from broker.storage.reserve import Reserve

COMMITTED: Final = 0
"""A frame is on disk."""
TIGHT: Final = 1
"""It is on disk, but there is no room for further messages."""
STUCK: Final = 2
"""It could not be put on disk: there is no room at all."""
LAZY: Final = 0.1
"""Seconds until a commit begins for records that no packet waits for."""

MOST_WAITING: Final = 8 * 1024 * 1024
"""Bytes of a frame after which the next one is begun. When so many wait for the next commit, it begins as soon as
possible, and the publishers that add to them are paused."""

WAIT: Final = 0.002
"""Seconds between two checks in `reach` whether the commit has returned."""

ROOM_AGAIN: Final = 16
"""That part of `max_bytes` is free when there is room again."""

NO_ROOM_PAUSE: Final = 1_000_000
LONG_PAUSE: Final = 5_000
"""Microseconds until a session that pulls nothing asks again: there is no room, or the next commit is long."""

RETRY: Final = 1.0
"""Seconds until a commit that found the disk full is tried again."""


@final
class Commits(Barrier):
    """Frames are numbered from 1. A commit has the number of its last frame: commit 7 puts frame 7 on disk."""

    def __init__(
        self, append: Callable[[int, list[list[bytes]]], int], disk: DiskThread, sync: float = 0.0, max_bytes: int = 0
    ) -> None:
        """`append` puts frames on disk, the first of which has this number, all or none of them, in a thread.

        It returns COMMITTED, TIGHT or STUCK, and raises if it fails.

        `sync`: seconds between commits, for which no packet waits then; 0 = packets wait for their commit. `max_bytes`:
        of all frames; 0 = any number.
        """
        super().__init__()  # what is committed is on disk
        self.number = 1
        """The frame that is being filled."""
        self.full = False
        """Whether the disk has no room for messages. What frees space may still be written."""
        self.stuck = False
        """Whether it has not even room for that."""
        self.lacks_room = False
        """Whether there is no room for messages, on the disk or within `max_bytes`, as last reported to `on_full`."""
        self.on_full: Callable[[bool], None] | None = None
        """Called when `lacks_room` has changed."""
        self.on_stuck: Callable[[bool], None] | None = None
        """Called when `stuck` has changed."""
        self.size = 0
        """Bytes of all frames that are on disk, or on their way."""
        self.max_bytes = max_bytes
        self.room: Callable[[], bool] | None = None
        """Says in the disk's thread whether there is room for messages: it is asked while there is none."""
        self.reserve = Reserve(lambda: 0, 0)
        self.failed: Exception | None = None
        """The error after which no commit is tried any more; None = none."""
        self.on_failed: Callable[[], None] | None = None
        self.before_commit: Callable[[], None] | None = None
        """Called before each commit: it may add records."""
        self.after_commit: Callable[[], None] | None = None
        """Called when a commit has returned; it raises StorageError if what is on disk would not be found again."""
        self.pieces: list[bytes] = []
        """What has been added to the frame; whoever appends to it calls `count`."""
        self.most_waiting: int = MOST_WAITING
        """Tests with small messages set it."""
        self._append = append
        self._disk = disk
        self._sync = sync
        self._bytes = 0
        self._ended: list[list[bytes]] = []  # frames before the one that is being filled, for the same commit
        self._paused: list[ReadGate] = []
        self._waiting: deque[tuple[int, Endpoint]] = deque()
        self._committing = False
        self._wanted = False
        self._scheduled = False
        self._check_scheduled = False

    def begin_after(self, frame: int, size: int) -> None:
        """Continue after the last frame in the file; `size`: bytes of all of them."""
        self.size = size
        self.committed = frame
        self.number = frame + 1

    def add(self, record: bytes) -> None:
        """Add a record to the frame that is being filled."""
        self.pieces.append(record)
        self._bytes += len(record)

    def count(self, size: int) -> None:
        """So many bytes have been appended to `pieces`."""
        self._bytes += size

    def position(self) -> int:
        """Where the next record will be in its frame, in bytes."""
        return HEAD_SIZE + self._bytes

    def has_room(self) -> bool:
        """Whether more messages may be written. What frees space is written in any case (FC-29)."""
        within = not 0 < self.max_bytes <= self.size + self._bytes
        return within and not self.full and self.reserve.admits(self._bytes)

    def may_move(self) -> bool:
        """Whether what is parked, paged or in a group may be routed, which writes it once more (FC-29).

        Where it was is free only when compaction has removed that.
        """
        if not self.reserve.may_take(self._bytes, self.full):
            return False
        return self.full or not 0 < self.max_bytes <= self.size + self._bytes - self.reserve.spare()

    def pull_pause(self) -> int:
        """For how many microseconds sessions pull nothing that has to be written for them once more; 0 = they may.

        So no commit gets as long as what waits in a group (FC-13), or as all retained messages of a new subscription.
        """
        if not self.may_move():
            return NO_ROOM_PAUSE
        if not self.reserve.is_long(self._bytes):
            return 0
        if not self._wanted:  # no packet may wait for it, and the next one would begin late
            self._wanted = True
            if not self._committing:
                asyncio.get_running_loop().call_soon(self._begin_wanted)
        return LONG_PAUSE

    def end_frame(self) -> None:
        """End the frame that is being filled: the next one is for the same commit."""
        self._ended.append(self.pieces)
        self.pieces = []
        size = padded(HEAD_SIZE + self._bytes)
        self.size += size
        self.reserve.ended += size
        self._bytes = 0
        self.number += 1

    def behind(self) -> bool:
        """Whether so much waits for the next commit that who adds to it has to pause."""
        return self.position() > self.most_waiting or len(self._ended) > 0

    def added_by(self, gate: ReadGate, now: int) -> None:
        """What a client has published has been added: pause reading it, if too much waits, until less does."""
        if self.behind() and not (gate.ended or gate.closed):
            gate.pause(COMMIT, now)
            self._paused.append(gate)

    def wait(self, endpoint: Endpoint, commit: int) -> None:
        """Have the endpoint's socket write on when this commit has returned."""
        self._waiting.append((commit, endpoint))

    def soon(self) -> int:
        """Begin a commit at the end of this turn of the loop, or when the current one has returned.

        With `sync` it begins later, unless much waits. Returns its number; 0 = no packet has to wait for it.
        """
        if self._sync and not self.behind():
            self.later()
        elif not self._wanted:
            self._wanted = True
            if not self._committing:
                asyncio.get_running_loop().call_soon(self._begin_wanted)
        return 0 if self._sync else self.number

    def later(self) -> None:
        """Begin a commit after LAZY, or after `sync`."""
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_later(self._sync or LAZY, self._begin_scheduled)

    def waits(self) -> bool:
        """Whether something is not on disk yet."""
        return self._committing or len(self.pieces) > 0 or len(self._ended) > 0

    async def reach(self) -> None:
        """Put on disk what has been added by now."""
        last = self.number
        while self.failed is None and self.committed < last:
            if not self._committing:
                self._commit()
                if not self._committing:
                    return  # there was nothing to write
            await asyncio.sleep(WAIT)

    def _begin_wanted(self) -> None:
        if self._wanted and not self._committing:
            self._commit()

    def _begin_scheduled(self) -> None:
        self._scheduled = False
        if self._committing:
            self._wanted = True
        else:
            self._commit()

    def _commit(self) -> None:
        self._wanted = False
        if self.failed is not None:
            return
        if self.before_commit is not None:
            self.before_commit()
        if self.pieces:
            self.end_frame()
        frames = self._ended
        if not frames:
            return
        self._ended = []
        self.reserve.under_way, self.reserve.ended = self.reserve.ended, 0
        self._committing = True
        self._put(self.number - len(frames), frames)
        paused, self._paused = self._paused, []
        for gate in paused:  # nothing waits for the next commit yet
            gate.resume(COMMIT)

    def _put(self, first: int, frames: list[list[bytes]]) -> None:
        append = self._append
        self._disk.do(lambda: append(first, frames), lambda result: self._returned(first, frames, result))

    def fail(self, error: Exception) -> None:
        """It is not known any more what is on disk, or it cannot be read: no commit returns from now on (FC-29)."""
        if self.failed is None:
            self.failed = error
            if self.on_failed is not None:
                self.on_failed()

    def _returned(self, first: int, frames: list[list[bytes]], result: int | Exception) -> None:
        if isinstance(result, Exception):
            self.fail(result)
            return
        stuck = result == STUCK
        if not stuck:
            self.reserve.under_way = 0
        self.reserve.look()
        if stuck != self.stuck:
            self.stuck = stuck
            if self.on_stuck is not None:
                self.on_stuck(stuck)
        self._set_full(result != COMMITTED)
        if self.stuck:
            asyncio.get_running_loop().call_later(RETRY, self._put, first, frames)
            return
        if self.after_commit is not None:
            try:
                self.after_commit()
            except StorageError as error:
                self.fail(error)
                return
        self.committed = first + len(frames) - 1
        self._committing = False
        if self._wanted:
            self._commit()
        waiting = self._waiting
        while waiting and waiting[0][0] <= self.committed:
            _notify(waiting.popleft()[1])

    # -- a disk that is full (FC-29)

    def check_room(self) -> None:
        """Ask whether there is room for messages, and again until there is."""
        self._check_scheduled = False
        if self.room is not None and self.failed is None:
            self._disk.do(self.room, self._have_checked)

    def _have_checked(self, result: bool | Exception) -> None:
        if isinstance(result, Exception):
            self.fail(result)
        elif not self.stuck:
            self.reserve.look()
            self._set_full(not result)

    def _set_full(self, full: bool) -> None:
        """Note whether the disk is full, and report whether there is room for messages if that has changed.

        It is full also if only the reserve is left: files are made in another thread, which may just have failed.
        """
        full = full or self.reserve.is_used_up()
        self.full = full
        # Once `max_bytes` is reached, some of it has to be free, so that what is freed and used at once is no news.
        free = self.max_bytes // ROOM_AGAIN if self.lacks_room else 0
        lacks_room = full or 0 < self.max_bytes <= self.size + self._bytes + free
        if lacks_room and not self._check_scheduled:
            self._check_scheduled = True
            asyncio.get_running_loop().call_later(RETRY, self.check_room)
        if lacks_room != self.lacks_room:
            self.lacks_room = lacks_room
            if self.on_full is not None:
                self.on_full(lacks_room)


def _notify(endpoint: Endpoint) -> None:
    try:
        endpoint.socket.on_commit()
    except Exception as error:
        endpoint.abort()
        context = {"message": "writing what waited for a commit has failed", "exception": error}
        asyncio.get_running_loop().call_exception_handler(context)
