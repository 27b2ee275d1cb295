"""Messages that are in the journal, and how many bytes of each frame are still needed."""

from typing import Final, final

from mypy_extensions import mypyc_attr

from session.cost import OVERHEAD

_NO_MESSAGES: Final[dict[int, "Message"]] = {}
_NO_QUEUES: Final[set[int]] = set()


@final
class Memory:
    """How many bytes the messages take that are in memory because a delivery needs them (FC-30)."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        """0 = none."""
        self.used = 0

    def is_full(self) -> bool:
        """Whether deliveries that have to wait should wait on disk only."""
        return 0 < self.limit <= self.used


@final
class Frame:
    """A frame in the journal. There are many, so one whose bytes are all dead has no collections of its own."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.size = 0
        """Its bytes on disk; 0 = it is not written yet."""
        self.live = 0
        """Bytes of its live messages."""
        self.messages = 0
        """How many of them are in memory."""
        self.retained = _NO_MESSAGES
        """Those of these that are retained, by their position in the frame."""
        self.evicted = 0
        """Deliveries of its messages that are on disk only."""
        self.unread = 0
        """Those of them that were dropped, and are still to be read (FC-35): until then the frame stays."""
        self.queues = _NO_QUEUES
        """Numbers of the sessions and groups whose state begins in this frame."""

    def live_bytes(self) -> int:
        """Bytes that are still needed: a message that is on disk only counts for each of its deliveries."""
        return min(self.live, self.size)

    def is_needed(self) -> bool:
        """Whether it has messages that somebody needs."""
        return self.evicted > 0 or self.messages > 0

    def add_retained(self, message: "Message") -> None:
        """A message of this frame is retained."""
        if not self.retained:
            self.retained = {}
        self.retained[message.offset] = message

    def remove_retained(self, message: "Message") -> None:
        """It is not retained any more, or in another frame."""
        del self.retained[message.offset]
        if not self.retained:
            self.retained = _NO_MESSAGES

    def add_evicted(self, size: int) -> None:
        """A delivery of one of its messages is on disk only; `size`: payload bytes."""
        self.evicted += 1
        self.live += size

    def remove_evicted(self, size: int) -> None:
        """It is done, in memory again, or in another frame."""
        self.evicted -= 1
        self.live -= size

    def add_queue(self, number: int) -> None:
        """The state of a session or group begins in this frame."""
        if not self.queues:
            self.queues = set()
        self.queues.add(number)

    def remove_queue(self, number: int) -> None:
        """It has ended, or begins in another frame."""
        self.queues.discard(number)
        if not self.queues:
            self.queues = _NO_QUEUES


@mypyc_attr(acyclic=True)
@final
class Message:
    """One message in the journal. It is there once, for all its deliveries; each that is read back has its own."""

    def __init__(self, frame: Frame, offset: int, memory: Memory) -> None:
        self.frame = frame
        self.offset = offset
        """Where its record is in the frame."""
        self._retained = False
        self._size = 0
        self._deliveries = 0
        self._memory = memory

    def written(self, size: int) -> None:
        """Its record has been written; `size`: the record's bytes."""
        self._size = size
        if self._is_needed():
            self.frame.live += size
        if self._deliveries:
            self._memory.used += size

    def place(self, frame: Frame, offset: int) -> None:
        """Its record is going to be written there, not where it was said to be."""
        if self._is_needed() and frame is not self.frame:
            self._end()
            self.frame = frame
            self._begin()
        self.frame = frame
        self.offset = offset

    @property
    def retained(self) -> bool:
        """Whether its topic retains it."""
        return self._retained

    def retain(self) -> None:
        """Its topic retains it."""
        if not self._retained:
            self.frame.add_retained(self)
        if not self._is_needed():
            self._begin()
        self._retained = True

    def replace(self) -> None:
        """Its topic does not retain it any more."""
        self._retained = False
        self.frame.remove_retained(self)
        if not self._is_needed():
            self._end()

    def use(self) -> None:
        """One more delivery in memory needs it."""
        if not self._is_needed():
            self._begin()
        self._memory.used += OVERHEAD if self._deliveries else OVERHEAD + self._size
        self._deliveries += 1

    def release(self) -> None:
        """One of them needs it no longer."""
        self._deliveries -= 1
        self._memory.used -= OVERHEAD if self._deliveries else OVERHEAD + self._size
        if not self._is_needed():
            self._end()

    def move(self, frame: Frame, offset: int, size: int) -> None:
        """It has been written to another frame too, and the first one is going to be removed."""
        self._end()
        if self._retained:
            self.frame.remove_retained(self)
        if self._deliveries:
            self._memory.used += size - self._size
        self.frame = frame
        self.offset = offset
        self._size = size
        self._begin()
        if self._retained:
            frame.add_retained(self)

    def _begin(self) -> None:
        """It is live."""
        self.frame.messages += 1
        self.frame.live += self._size

    def _end(self) -> None:
        """It is dead, or not in this frame any more."""
        self.frame.messages -= 1
        self.frame.live -= self._size

    def _is_needed(self) -> bool:
        return self._retained or self._deliveries > 0
