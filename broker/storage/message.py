"""Messages that are in the journal, and how many bytes of each frame are still needed."""

from typing import Final, final

from mypy_extensions import mypyc_attr

_NO_MESSAGES: Final[dict[int, "Message"]] = {}
_NO_LOGS: Final[set[int]] = set()


@final
class Frame:
    """A frame in the journal. There are many of them, so one that nobody needs any more has nothing of its own."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.size = 0
        """Its bytes on disk; 0 = it is not written yet."""
        self.live = 0
        """Bytes of its messages that a session, or a topic, still needs."""
        self.messages = _NO_MESSAGES
        """Those messages, by number."""
        self.logs = _NO_LOGS
        """Numbers of the sessions and groups whose state begins in this frame."""

    def add_message(self, message: "Message", size: int) -> None:
        """Somebody needs a message of this frame."""
        self.live += size
        if not self.messages:
            self.messages = {}
        self.messages[message.number] = message

    def remove_message(self, message: "Message", size: int) -> None:
        """Nobody needs it any more, or it is in another frame."""
        self.live -= size
        del self.messages[message.number]
        if not self.messages:
            self.messages = _NO_MESSAGES

    def add_log(self, number: int) -> None:
        """The state of a session or group begins in this frame."""
        if not self.logs:
            self.logs = set()
        self.logs.add(number)

    def remove_log(self, number: int) -> None:
        """It has ended, or begins in another frame."""
        self.logs.discard(number)
        if not self.logs:
            self.logs = _NO_LOGS


@mypyc_attr(acyclic=True)
@final
class Message:
    """One message in the journal: its body is there once, whoever it is for."""

    def __init__(self, number: int, frame: Frame) -> None:
        self.number = number
        self.frame = frame
        self.retained = False
        """Whether its topic retains it."""
        self._size = 0
        self._users = 0

    def written(self, size: int) -> None:
        """Its record has this many bytes."""
        self._size = size
        if self._users:
            self.frame.live += size

    def use(self) -> None:
        """One more delivery needs it, or its topic, which retains it."""
        self._users += 1
        if self._users == 1:
            self.frame.add_message(self, self._size)

    def release(self) -> None:
        """One of them needs it no longer."""
        self._users -= 1
        if self._users == 0:
            self.frame.remove_message(self, self._size)

    def move(self, frame: Frame, size: int) -> None:
        """It has been written to another frame too, and the first one is going to be removed."""
        self.frame.remove_message(self, self._size)
        self.frame = frame
        self._size = size
        frame.add_message(self, size)
