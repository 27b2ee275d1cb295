"""The mailbox: deliveries that the router has offered and no pass has taken yet (FC-9)."""

from typing import Final, final

from mypy_extensions import mypyc_attr

from protocol.publish import Publish
from session import qos0_gate
from session.counters import Counters
from session.limits import Limits

ROOM: Final = 1_024
"""While the mqueue paces publishers: at this length only those that are paced may add to the mailbox (FC-16)."""

_NOTHING: Final[list[Publish]] = []


@mypyc_attr(acyclic=True)  # it refers to PUBLISHes only, which are acyclic too: 16 bytes less
@final
class Mailbox:
    """Two lists: the router appends to one, passes take from the other, starting at `position`."""

    def __init__(self) -> None:
        self.arrived: list[Publish] = []
        self.taken: list[Publish] = _NOTHING
        self.position = 0
        self.busy = False
        """FC-3: whether it was too long when it was last sampled."""
        self.sends_to_sample: int = qos0_gate.SENDS_PER_SAMPLE

    def length(self) -> int:
        """How many deliveries wait."""
        return len(self.arrived) + len(self.taken) - self.position

    def waiting(self) -> list[Publish]:
        """The deliveries, oldest first (FC-9)."""
        return self.taken[self.position :] + self.arrived

    def first(self) -> Publish:
        """The next delivery. Raises IndexError if there is none."""
        return self.taken[self.position] if self.position < len(self.taken) else self.arrived[0]

    def begin_pass(self) -> list[Publish]:
        """Return the list to take from, starting at `position`; swap in what has arrived if the last is used up."""
        if self.position >= len(self.taken):
            self.taken = self.arrived
            self.arrived = []
            self.position = 0
        return self.taken

    def end_pass(self) -> None:
        """Release a list that is used up: an idle session must not keep its last messages alive."""
        if self.position >= len(self.taken):
            self.taken = _NOTHING
            self.position = 0

    def take_all(self) -> list[Publish]:
        """Empty the mailbox; returns what it held."""
        waiting = self.waiting()
        self.arrived = []
        self.taken = _NOTHING
        self.position = 0
        return waiting

    def has_room(self, publish: Publish, limits: Limits) -> bool:
        """FC-16: whether it is below ROOM and, with `publish`, within the mqueue's limit in bytes."""
        most = limits.max_mqueue_bytes
        if self.length() >= ROOM:
            return False
        return not most or sum([waiting.size for waiting in self.waiting()]) + publish.size <= most

    def sample(self, counters: Counters) -> None:
        """Sample the length: once in each pass, and after each 100 sends (FC-3)."""
        length = self.length()
        self.busy = qos0_gate.mailbox_busy(self.busy, length)
        counters.count_mailbox(length, self.busy)
        self.sends_to_sample = qos0_gate.SENDS_PER_SAMPLE
