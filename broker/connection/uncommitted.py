"""FC-27: what a connection may not write before commits of the journal have returned."""

from collections import deque
from typing import final


@final
class _Held:
    """Pieces that wait for one commit."""

    def __init__(self, commit: int) -> None:
        self.commit = commit
        self.pieces: list[bytes] = []
        self.bytes = 0
        self.deliveries = 0


@final
class Uncommitted:
    """Pieces of packets in the order in which they are written, each with the commit that it waits for.

    What is added later waits too, whatever it is: so the order of all packets stays as it is.
    """

    def __init__(self) -> None:
        self.bytes = 0
        """How many bytes wait."""
        self.congests = False
        """Whether the send path counts as congested because of them."""
        self.closes = False
        """Whether the socket is to be closed when the last commit has returned."""
        self.reason_sent = False
        """Whether the reason of that is among what waits."""
        self._queue: deque[_Held] = deque()

    def hold_until(self, commit: int) -> bool:
        """What is added from now on waits for this commit; returns whether nothing waited for it before."""
        if self._queue and self._queue[-1].commit >= commit:
            return False
        self._queue.append(_Held(commit))
        return True

    def add(self, pieces: list[bytes], deliveries: int) -> None:
        """Add pieces at the end, and take over the list; `deliveries`: bytes of deliveries among them."""
        held = self._queue[-1]
        if held.pieces:
            held.pieces.extend(pieces)
        else:
            held.pieces = pieces
        held.deliveries += deliveries
        size = 0
        for piece in pieces:
            size += len(piece)
        held.bytes += size
        self.bytes += size

    def take(self, committed: int) -> tuple[list[bytes], int]:
        """Remove and return what waits for this commit, and for those before it; and its bytes of deliveries."""
        taken: list[bytes] = []
        deliveries = 0
        while self._queue and self._queue[0].commit <= committed:
            held = self._queue.popleft()
            if taken:
                taken.extend(held.pieces)
            else:
                taken = held.pieces
            deliveries += held.deliveries
            self.bytes -= held.bytes
        return taken, deliveries

    def waits(self) -> bool:
        """Whether anything waits for a commit."""
        return len(self._queue) > 0
