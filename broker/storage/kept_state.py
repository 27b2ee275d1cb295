"""State that the journal keeps: written at once, and again when the frame that has it is removed (FC-27)."""

from broker.storage import records
from broker.storage.journal import Journal
from broker.storage.message import Frame
from session.journal import QueueJournal


class KeptState(QueueJournal):
    """The state of one session, group, address or will; `number` names it in the journal."""

    def __init__(self, journal: Journal, number: int) -> None:
        self.journal = journal
        self.number = number
        self.ended = False
        """Whether nothing more is written."""
        self.begins_in: Frame | None = None
        """The frame in which it begins; None = none of it is written yet."""
        self._size = 0

    def begin_in(self, frame: Frame) -> None:
        """All of it is in this frame and later ones."""
        if self.begins_in is not None:
            self.begins_in.remove_queue(self.number)
        self.begins_in = frame
        frame.add_queue(self.number)
        self.journal.queues[self.number] = self

    def write_all(self, state: list[bytes]) -> int:
        """Write these records, which are all of it. Returns their commit."""
        self.begin_in(self.journal.frame())
        commit = 0
        size = 0
        for record in state:
            commit = self.journal.write(record)
            size += len(record)
        self.count_state(size - self._size)
        return commit

    def count_state(self, more: int) -> None:
        """It has grown, or shrunk, by so many bytes."""
        self._size += more
        self.journal.state_size += more

    def stop(self) -> None:
        """Write nothing more, and leave what is on disk: the next start restores it."""
        self.ended = True

    def write_former(self) -> int:
        """Write that it is only there for what is still to be told (FC-35). Returns the commit; 0 = nothing is written.

        A group without members is known as such.
        """
        return 0

    def end(self) -> int:
        """It is not kept any more. Returns the commit."""
        if self.ended:
            return 0
        self.ended = True
        self.count_state(-self._size)
        self.journal.queues.pop(self.number, None)
        if self.begins_in is not None:
            self.begins_in.remove_queue(self.number)
        return self.journal.write(records.ended(self.number))
