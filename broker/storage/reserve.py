"""FC-29: the room that is kept for what frees space, and how much of it may be used for something else."""

from collections.abc import Callable
from typing import Final, final

ANY: Final = 1 << 62
"""More bytes than any disk has."""


@final
class Reserve:
    """What can still be written, and what waits for that.

    Two segments and a half stay for what is not a new message. Almost two of these stay for acknowledgements, and for
    compaction, which frees nothing before it has copied what is live in a segment. The rest is for what is written once
    more: a PUBLISH that was parked or paged, what a session pulls from a group. Commits of that are short: the end of a
    segment into which the next one does not fit is lost.
    """

    def __init__(self, free: Callable[[], int], segment: int) -> None:
        """`free`: bytes that can be written. `segment`: bytes of one; 0 = there are none."""
        self.under_way = 0
        """Bytes of the commit that has begun."""
        self.ended = 0
        """Bytes of frames that have ended, for the next commit."""
        self._free = free
        self._segment = segment
        self._most = ANY

    def look(self) -> None:
        """Look how much room there is: that is known each time that a commit has returned."""
        self._most = self._free() - 5 * self._segment // 2 if self._segment else ANY

    def admits(self, frame: int) -> bool:
        """Whether a new message may be written; `frame`: bytes of the frame that is being filled."""
        return self.under_way + self.ended + frame <= self._most

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
        return not self._segment or self.left(frame) >= 7 * self._segment // 4

    def spare(self) -> int:
        """Bytes that may be written once more beyond `persistence.max_bytes`."""
        return self._segment // 2
