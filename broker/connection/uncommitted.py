"""FC-27: what a connection may not write before commits of the journal have returned."""

from collections import deque
from typing import final


@final
class _Group:
    def __init__(self, commit: int) -> None:
        self.commit = commit
        self.pieces: list[bytes] = []
        self.deliveries = 0


@final
class Uncommitted:
    """Pieces of packets in the order in which they go out, in groups that each wait for one commit.

    What comes later waits too, whatever it is: so the order of all packets stays as it is.
    """

    def __init__(self) -> None:
        self.bytes = 0
        """How many wait."""
        self.congests = False
        """Whether the send path counts as congested because of them."""
        self._groups: deque[_Group] = deque()

    def hold_until(self, commit: int) -> bool:
        """What is added from now on waits for this commit; returns whether nothing waits for it yet."""
        if self._groups and self._groups[-1].commit >= commit:
            return False
        self._groups.append(_Group(commit))
        return True

    def add(self, pieces: list[bytes], deliveries: int) -> None:
        """Add pieces at the end; `deliveries`: bytes of deliveries among them."""
        group = self._groups[-1]
        group.pieces.extend(pieces)
        group.deliveries += deliveries
        for piece in pieces:
            self.bytes += len(piece)

    def take(self, committed: int) -> tuple[list[bytes], int]:
        """Remove and return what waits for this commit, and for those before it; and its bytes of deliveries."""
        taken: list[bytes] = []
        deliveries = 0
        while self._groups and self._groups[0].commit <= committed:
            group = self._groups.popleft()
            taken.extend(group.pieces)
            deliveries += group.deliveries
        for piece in taken:
            self.bytes -= len(piece)
        return taken, deliveries

    def waits(self) -> bool:
        """Whether a commit is waited for."""
        return len(self._groups) > 0
