"""Which deliveries of one session or group are pending, and which are done: acknowledged, handed on, or dropped."""

from typing import final

from mypy_extensions import mypyc_attr

from broker.storage import records


@mypyc_attr(acyclic=True)
@final
class Deliveries:
    """The pending deliveries of a session or group, by number; `log` names it in the journal."""

    def __init__(self, log: int) -> None:
        self.log = log
        self.following = 0
        """The number of the next delivery. A number is never used again: records may still speak of it."""
        self.pending: set[int] = set()
        self._done: list[int] = []  # those that no record has told yet

    def begin(self) -> int:
        """The number of a new delivery."""
        number = self.following
        self.following += 1
        self.pending.add(number)
        return number

    def finish(self, number: int) -> bool:
        """A delivery is done; returns whether it is the first one that the next record has to tell."""
        if number not in self.pending:
            return False
        self.pending.remove(number)
        self._done.append(number)
        return len(self._done) == 1

    def take_record(self) -> bytes:
        """The record of what is done since the last one; empty if that is nothing."""
        done = self._done
        if not done:
            return b""
        self._done = []
        return records.done(self.log, done)
