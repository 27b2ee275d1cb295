"""Messages that are in the journal, and how many bytes of each frame are still needed."""

from typing import Final, final

from mypy_extensions import mypyc_attr

_NO_MESSAGES: Final[dict[int, "Message"]] = {}
_NO_QUEUES: Final[set[int]] = set()


@final
class Frame:
    """A frame in the journal. There are many, so one whose bytes are all dead has no collections of its own."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.size = 0
        """Its bytes on disk; 0 = it is not written yet."""
        self.live = 0
        """Bytes of its live messages."""
        self.messages = _NO_MESSAGES
        """Its live messages, by number."""
        self.queues = _NO_QUEUES
        """Numbers of the sessions and groups whose state begins in this frame."""

    def add_message(self, message: "Message", size: int) -> None:
        """A message of this frame is live."""
        self.live += size
        if not self.messages:
            self.messages = {}
        self.messages[message.number] = message

    def remove_message(self, message: "Message", size: int) -> None:
        """The message is dead, or has been moved to another frame."""
        self.live -= size
        del self.messages[message.number]
        if not self.messages:
            self.messages = _NO_MESSAGES

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
    """One message in the journal. It is there once, for all its deliveries."""

    def __init__(self, number: int, frame: Frame) -> None:
        self.number = number
        self.frame = frame
        self.retained = False
        """Whether its topic retains it."""
        self._size = 0
        self._users = 0

    def written(self, size: int) -> None:
        """Its record has been written; `size`: the record's bytes."""
        self._size = size
        if self._users:
            self.frame.live += size

    def use(self) -> None:
        """One more delivery needs it, or its topic retains it."""
        self._users += 1
        if self._users == 1:
            self.frame.add_message(self, self._size)

    def release(self) -> None:
        """One of them does not need it any more."""
        self._users -= 1
        if self._users == 0:
            self.frame.remove_message(self, self._size)

    def move(self, frame: Frame, size: int) -> None:
        """It has been written to another frame, because the first one is going to be removed."""
        self.frame.remove_message(self, self._size)
        self.frame = frame
        self._size = size
        frame.add_message(self, size)
