"""FC-29: the room that is kept for what frees space, and how much of it may be used for something else."""

from collections.abc import Callable
from typing import final

from broker.storage.spares import ANY


@final
class Reserve:
    """What can still be written, and what waits for that.

    Two segments and a half stay for what is not a new message. Of these, acknowledgements and compaction keep what is
    needed to free a segment: to copy what is live in the oldest one. The rest is for what is written once more: a
    PUBLISH that was parked or paged, what a session pulls from a group. Commits of that are short, because the end of a
    segment into which the next one does not fit is lost.
    """

    def __init__(self, free: Callable[[], int], segment: int, live: Callable[[], int | None] = lambda: None) -> None:
        """`free`: bytes that can be written. `segment`: bytes of one; 0 = there are none.

        `live`: bytes that have to be copied before the oldest segment is free; None = there is only one.
        """
        self.under_way = 0
        """Bytes of the commit that has begun."""
        self.ended = 0
        """Bytes of frames that have ended, for the next commit."""
        self._free = free
        self._segment = segment
        self._live = live
        self._most = ANY
        self._kept = 7 * segment // 4

    def look(self) -> None:
        """Look how much room there is: that is known each time that a commit has returned."""
        free, segment = self._free(), self._segment
        self._most = free - 5 * segment // 2 if segment else ANY
        self._kept = 7 * segment // 4
        if free < 4 * segment:  # else it does not matter, and to add up what is live takes time
            live = self._live()
            if live is not None:
                self._kept = min(self._kept, live + segment // 2)

    def admits(self, frame: int) -> bool:
        """Whether a new message may be written; `frame`: bytes of the frame that is being filled."""
        return self.under_way + self.ended + frame <= self._most

    def is_used_up(self) -> bool:
        """Whether no new message may be written even when nothing else waits."""
        return self._most < 0

    def room(self) -> int:
        """Bytes of new messages that the disk has room for; ANY if that is not known."""
        return max(0, self._most - self.under_way - self.ended)

    def left(self, frame: int) -> int:
        """Bytes that can be written besides what waits."""
        return self._free() - self.under_way - self.ended - frame

    def is_long(self, frame: int) -> bool:
        """Whether the next commit has a quarter of a segment."""
        return 0 < self._segment // 4 <= self.ended + frame

    def may_take(self, frame: int, full: bool) -> bool:
        """Whether something may be written once more.

        On a disk that is `full` no commit gets long for that.
        """
        if full and self.is_long(frame):
            return False
        return not self._segment or self.left(frame) >= self._kept

    def spare(self) -> int:
        """Bytes that may be written once more beyond `persistence.max_bytes`."""
        return self._segment // 2
