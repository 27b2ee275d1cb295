"""The deliveries of one session or group that are in memory: which are pending, sent, and done."""

from typing import final

from mypy_extensions import mypyc_attr

from broker.storage import records
from broker.storage.message import Message


@mypyc_attr(acyclic=True)
@final
class Deliveries:
    """By number; `queue` names the session or group in the journal.

    What is sent or done is noted, and recorded once in each frame: many deliveries share a record.
    """

    def __init__(self, queue: int) -> None:
        self.queue = queue
        self.next_delivery = 0
        """The number of the next delivery. A number is never used again: older records may name it."""
        self.pending: dict[int, Message] = {}
        """Those that are not done, and their messages."""
        self.inflight: dict[int, int] = {}
        """Packet ids of those that have been sent, in that order."""
        self.received: set[int] = set()
        """Those whose PUBREC has come."""
        self.noted = False
        """Whether there is something to record."""
        self.listed = False
        """Whether the journal knows of that."""
        self._sent: list[int] = []  # since the last record
        self._done: list[int] = []

    def begin(self, message: Message) -> int:
        """The number of a new delivery of a message."""
        number = self.next_delivery
        self.next_delivery += 1
        self.pending[number] = message
        return number

    def note_sent(self, number: int, packet_id: int) -> None:
        """A delivery has been sent."""
        self.inflight[number] = packet_id
        self._sent.append(number)
        self.noted = True

    def finish(self, number: int) -> None:
        """A delivery is done: acknowledged, handed on, or dropped."""
        if number in self.pending:
            del self.pending[number]  # compiled, `pop` costs several times as much
            if number in self.inflight:
                del self.inflight[number]
                if self.received:
                    self.received.discard(number)
            self._done.append(number)
            self.noted = True

    def note_done(self, number: int) -> None:
        """A delivery that is not in memory is done."""
        self._done.append(number)
        self.noted = True

    def take_records(self) -> list[bytes]:
        """The records of what has been sent and done since the last ones. What is both is only told to be done."""
        taken: list[bytes] = []
        sent, self._sent = self._sent, []
        done, self._done = self._done, []
        self.noted = False
        inflight = self.inflight
        told = [(number, inflight[number]) for number in sent if number in inflight]
        if told:
            taken.append(records.sent(self.queue, told))
        if done:
            taken.append(records.done(self.queue, done))
        return taken
