"""The deliveries of one session or group that are in memory: which are pending, sent, and done."""

from typing import TypeAlias, cast, final

from mypy_extensions import mypyc_attr

from broker.storage import records
from broker.storage.message import Message

Number: TypeAlias = object
"""The number of a delivery: an int that stays one object. Compiled code makes a new object of an `int` each time that
it is a key or joins a list."""


@mypyc_attr(acyclic=True)
@final
class Deliveries:
    """By number; `queue` names the session or group in the journal.

    What is sent or done is noted, and recorded once in each frame: many deliveries share a record.
    """

    def __init__(self, queue: int) -> None:
        self.queue = queue
        self.first_delivery = 0
        """The lowest number so far, which is 0 or less."""
        self.next_delivery = 0
        """The number of the next delivery. A number is never used again: older records may name it."""
        self.pending: dict[Number, Message] = {}
        """Those that are not done, and their messages."""
        self.inflight: dict[Number, int] = {}
        """Packet ids of those that have been recorded as sent, in that order."""
        self.received: set[Number] = set()
        """Those whose PUBREC has come."""
        self.noted = False
        """Whether there is something to record."""
        self.listed = False
        """Whether the journal knows of that."""
        self.progress = b""
        """The record of how far a source of them has come, to be written with them. A newer one replaces it."""
        # Since the last record. Most are done before that, so only their numbers are noted.
        self._sent: list[Number] = []
        self._packet_ids: list[int] = []
        self._done: list[Number] = []

    def begin(self, message: Message) -> Number:
        """The number of a new delivery of a message."""
        number: Number = self.next_delivery
        self.next_delivery += 1
        self.pending[number] = message
        return number

    def begin_first(self, message: Message) -> Number:
        """The number of a new delivery of a message that comes before all others."""
        self.first_delivery -= 1
        number: Number = self.first_delivery
        self.pending[number] = message
        return number

    def note_sent(self, number: Number, packet_id: int) -> None:
        """A delivery has been sent."""
        self._sent.append(number)
        self._packet_ids.append(packet_id)
        self.noted = True

    def finish(self, number: Number) -> None:
        """A delivery is done: acknowledged, handed on, or dropped."""
        try:
            del self.pending[number]  # compiled, `pop` costs several times as much, and so does a look before it
        except KeyError:
            return
        if self.inflight and number in self.inflight:
            del self.inflight[number]
            if self.received:
                self.received.discard(number)
        self._done.append(number)
        self.noted = True

    def note_done(self, number: Number) -> None:
        """A delivery that is not in memory is done."""
        self._done.append(number)
        self.noted = True

    def take_records(self) -> list[bytes]:
        """The records of what has been sent and done since the last ones. What is both is only told to be done."""
        taken: list[bytes] = []
        self.noted = False
        if self._sent:
            told = self._note_inflight()
            if told:
                taken.append(records.sent(self.queue, told))
        if self._done:
            taken.append(records.done(self.queue, cast("list[int]", self._done)))
            self._done = []
        if self.progress:
            taken.append(self.progress)
            self.progress = b""
        return taken

    def all_inflight(self) -> list[tuple[int, int]]:
        """All that have been sent, and their packet ids, in that order; the caller records them."""
        self._note_inflight()
        return cast("list[tuple[int, int]]", list(self.inflight.items()))

    def _note_inflight(self) -> list[tuple[int, int]]:
        """Note the packet ids of those that have been sent since the last record and are not done; returns them."""
        told: list[tuple[Number, int]] = []
        pending, inflight, packet_ids = self.pending, self.inflight, self._packet_ids
        for position, number in enumerate(self._sent):
            if number in pending:
                packet_id = packet_ids[position]
                inflight[number] = packet_id
                told.append((number, packet_id))
        self._sent = []
        self._packet_ids = []
        return cast("list[tuple[int, int]]", told)
