"""The mailbox: deliveries that the router has offered and no pass has taken yet (FC-9)."""

from typing import Final, final

from mypy_extensions import i32, i64, mypyc_attr

from protocol.publish import Publish
from session import qos0_gate
from session.counters import Counters
from session.histogram import Histogram
from session.limits import Limits

ROOM: Final = 1_024
"""While the mqueue paces publishers: at this length only those that are paced may add to the mailbox (FC-16)."""
_NOTHING: Final[list[Publish]] = []
"""The deliveries of every empty mailbox, to which nothing is added. An empty list of its own would take memory, and
would have left the processor's caches when the next delivery comes."""


@mypyc_attr(acyclic=True)  # it refers to PUBLISHes only, which are acyclic too: 16 bytes less
@final
class Mailbox:
    """The router adds to `deliveries`, passes take from it, starting at `position`."""

    def __init__(self) -> None:
        self.deliveries = _NOTHING
        self.position: i64 = 0
        """How many have been taken, and are still in the list until `sample` removes them."""
        self.busy = False
        """FC-3: whether it was too long when it was last sampled."""
        self.sends_to_sample: i32 = qos0_gate.SENDS_PER_SAMPLE  # shares eight bytes with `busy`

    def add(self, publish: Publish) -> None:
        """Add a delivery."""
        if self.deliveries:
            self.deliveries.append(publish)
        else:
            self.deliveries = [publish]

    def length(self) -> int:
        """How many deliveries wait."""
        return len(self.deliveries) - self.position

    def waiting(self) -> list[Publish]:
        """The deliveries, oldest first (FC-9)."""
        return self.deliveries[self.position :]

    def first(self) -> Publish:
        """The next delivery. Raises IndexError if there is none."""
        return self.deliveries[self.position]

    def take_all(self) -> list[Publish]:
        """Empty the mailbox; returns what it held."""
        waiting = self.waiting()
        self.deliveries = _NOTHING
        self.position = 0
        return waiting

    def has_room(self, publish: Publish, limits: Limits) -> bool:
        """FC-16: whether it is below ROOM and, with `publish`, within the mqueue's limit in bytes."""
        most = limits.max_mqueue_bytes
        if self.length() >= ROOM:
            return False
        if not most:
            return True
        size: i64 = publish.size
        for place in range(self.position, len(self.deliveries)):
            size += self.deliveries[place].size
        return size <= most

    def sample(self, counters: Counters) -> int:
        """FC-3: sample the length, at the end of each pass and after each 100 sends, and return it.

        Removes what has been taken: an idle session must not keep its last messages alive.
        """
        length: i64 = len(self.deliveries) - self.position
        if length == 0:
            if self.position:
                self.deliveries = _NOTHING
                self.position = 0
        elif self.position >= length:  # so each delivery is moved once at most, on the average
            del self.deliveries[: self.position]
            self.position = 0
        if length > qos0_gate.MAILBOX_BUSY_HIGH:
            self.busy = True
        elif length <= qos0_gate.MAILBOX_BUSY_LOW:
            self.busy = False
        counters.mailbox_samples += 1
        if self.busy:
            counters.mailbox_busy_samples += 1
        if length > counters.mailbox_max:
            counters.mailbox_max = length
        if length:  # the counters know how often it was empty
            hist = counters.mailbox_buckets
            if hist is None:
                hist = counters.mailbox_buckets = Histogram()
            hist.add(length)
        self.sends_to_sample = qos0_gate.SENDS_PER_SAMPLE
        return length
