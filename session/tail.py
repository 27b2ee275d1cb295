"""FC-30: the end of a queue, which is on disk only."""

from collections import deque

from mypy_extensions import mypyc_attr

from protocol.publish import Publish


@mypyc_attr(allow_interpreted_subclasses=True)
class Tail:
    """Deliveries that come after all of the queue's that are in memory."""

    def __init__(self) -> None:
        self.behind: deque[Publish] = deque()
        """What has joined the queue since and has to stay in memory."""
        self.over = False
        """Whether nothing is left of it."""

    def append(self, publish: Publish) -> bool:
        """Take over a delivery; False if that has to stay in memory, as QoS 0 does."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def length(self) -> int:
        """How many deliveries there are."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def totals(self) -> tuple[int, int, int]:
        """How many deliveries of QoS 1 and of QoS 2 there are, and their payload bytes."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def number(self, publish: Publish) -> int:
        """The number of a delivery that it has taken over."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def replace(self, number: int, publish: Publish) -> bool:
        """FC-37: take over a delivery in the place of the one of this number, which is done.

        Returns False, and changes nothing, if it has to stay in memory.
        """
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def remove(self, number: int) -> None:
        """FC-37: the delivery of this number is done."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def topics(self) -> list[tuple[bytes, int, int, int, int]]:
        """FC-37: of those that waited before the process began topic, number, QoS, payload bytes, when received.

        Each is told once.
        """
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def drop(self) -> tuple[Publish, int]:
        """Drop the first one; returns what is known of it, as `dropped`, and its number.

        Raises IndexError if there is none.
        """
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def drop_newest(self) -> tuple[Publish, int]:
        """Drop the last one, as `drop`."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def is_blocking(self) -> bool:
        """Whether PUBLISHes wait for room in the address of one of them (FC-25)."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def first(self) -> tuple[int, int]:
        """The payload bytes of the first one, and when it was received. Raises IndexError if there is none."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def read(self, most: int) -> None:
        """Begin to read up to `most` back, unless that is under way: the queue gets them when they are there."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def read_at_start(self) -> None:
        """Read all of them back, while the event loop waits, unless memory is bounded."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC


def dropped(qos: int, size: int, place: object | None) -> Publish:
    """What is known of a delivery that is dropped unread; `place`: what can read it (FC-35), None = nobody asks."""
    publish = Publish(b"", b"", qos)
    publish.size = size
    publish.holder = place
    return publish
