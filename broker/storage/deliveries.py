"""Which deliveries of one session or group are pending, and which are done: acknowledged, handed on, or dropped."""

from typing import final

from mypy_extensions import mypyc_attr

from broker.storage import records


@mypyc_attr(acyclic=True)
@final
class Deliveries:
    """The pending deliveries of a session or group that are in memory, by number; `kept` names it in the journal."""

    def __init__(self, queue: int) -> None:
        self.queue = queue
        self.next_delivery = 0
        """The number of the next delivery. A number is never used again: older records may name it."""
        self.pending: set[int] = set()
        self._done: list[int] = []  # since the last record

    def begin(self) -> int:
        """The number of a new delivery."""
        number = self.next_delivery
        self.next_delivery += 1
        self.pending.add(number)
        return number

    def finish(self, number: int) -> bool:
        """A delivery is done; returns whether it is the first one since the last record."""
        if number not in self.pending:
            return False
        self.pending.remove(number)
        return self.note(number)

    def note(self, number: int) -> bool:
        """A delivery that is not in memory is done; returns whether it is the first one to tell."""
        self._done.append(number)
        return len(self._done) == 1

    def take_record(self) -> bytes:
        """The record of the deliveries that are done since the last one; empty if there are none."""
        done = self._done
        if not done:
            return b""
        self._done = []
        return records.done(self.queue, done)
