"""FC-29: the room that a full disk keeps for what frees space, and how much of it may be used for something else."""

from collections.abc import Callable
from typing import final


@final
class Reserve:
    """The free segments, and what waits to be written to them. Without room for messages two are free.

    A segment and a half stay for acknowledgements, and for compaction, which frees nothing before it has copied what is
    live in a segment. The rest is for what is written once more: a PUBLISH that was parked or paged, what a session
    pulls from a group. No commit gets so long for that that it needs a file of its own.
    """

    def __init__(self, free: Callable[[], int], segment: int) -> None:
        """`free`: bytes that can be written if the disk gives no more. `segment`: bytes of one; 0 = there are none."""
        self.under_way = 0
        """Bytes of the commit that has begun."""
        self.ended = 0
        """Bytes of frames that have ended, for the next commit."""
        self._free = free
        self._segment = segment

    def left(self, frame: int) -> int:
        """Bytes that can be written besides what waits; `frame`: bytes of the one that is being filled."""
        return self._free() - self.under_way - self.ended - frame

    def is_long(self, frame: int) -> bool:
        """Whether the next commit has half a segment."""
        return 0 < self._segment // 2 <= self.ended + frame

    def may_take(self, frame: int) -> bool:
        """Whether something may be written once more while there is no room for messages."""
        return self.left(frame) >= self._segment + self._segment // 2 and not self.is_long(frame)

    def spare(self) -> int:
        """Bytes that may be written once more beyond `persistence.max_bytes`."""
        return self._segment // 2
