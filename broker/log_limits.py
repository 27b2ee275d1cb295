"""How many lines an event may have: a flood of one, from one listener or user, gives few lines, and then one that says
how many others there were."""

from collections.abc import Callable
from typing import Final, NamedTuple, final

from broker.runtime.clock import SECOND, monotonic_us

PERIOD: Final = 10 * SECOND
"""Microseconds in which an event has at most so many lines."""
MOST_OF_CLIENT: Final = 5
"""Lines of an event in a period about one client: one that comes and goes all the time does not hide the others."""
MOST_SOURCES: Final = 1_000
"""Events and sources that are told apart; beyond that all sources of an event count together."""


class LeftOut(NamedTuple):
    """Lines that were not written in one period."""

    event: str
    source: str
    lines: int
    client_id: str = ""
    """Whom they are about, if it was one client that had too many."""


@final
class LogLimits:
    """Counts lines by event and source: where those come from who cause it, such as a listener."""

    def __init__(self, most: int = 0, clock: Callable[[], int] = monotonic_us) -> None:
        """`most`: lines in a period; 0 = no limit."""
        self.most = most
        self._clock = clock
        self._until = 0
        self._lines: dict[tuple[str, str], int] = {}
        self._of_clients: dict[tuple[str, str, str], int] = {}
        self._left_out: list[LeftOut] = []

    def admit(self, event: str, source: str, client_id: str = "") -> bool:
        """Whether one more line may be written; `client_id`: whom it is about, if it is about one client."""
        if self.most == 0:
            return True
        self._look()
        key = (event, source)
        if client_id and MOST_OF_CLIENT < self.most > self._lines.get(key, 0):  # so clients are few, too
            of_client = (event, source, client_id)
            count = self._of_clients[of_client] = self._of_clients.get(of_client, 0) + 1
            if count > MOST_OF_CLIENT:
                return False
        if key not in self._lines and len(self._lines) >= MOST_SOURCES:
            key = (event, "")
        count = self._lines[key] = self._lines.get(key, 0) + 1
        return count <= self.most

    def leaves_out(self, event: str, source: str, client_id: str) -> bool:
        """Whether a line about this client is one too many, and is counted as such: to make it would cost more."""
        if self.most == 0:
            return False
        self._look()
        key = (event, source)
        count = self._lines.get(key, 0)
        if count >= self.most:
            self._lines[key] = count + 1
            return True
        of_client = (event, source, client_id)
        count = self._of_clients.get(of_client, 0)
        if count < MOST_OF_CLIENT:
            return False
        self._of_clients[of_client] = count + 1
        return True

    def take(self) -> list[LeftOut]:
        """What was left out in periods that are over; each is told once."""
        if self._lines:
            self._look()
        left_out, self._left_out = self._left_out, []
        return left_out

    def end(self) -> None:
        """The period is over now."""
        self._left_out += [
            LeftOut(event, source, count - self.most)
            for (event, source), count in self._lines.items()
            if count > self.most > 0
        ]
        self._left_out += [
            LeftOut(event, source, count - MOST_OF_CLIENT, client_id)
            for (event, source, client_id), count in self._of_clients.items()
            if count > MOST_OF_CLIENT
        ]
        self._lines = {}
        self._of_clients = {}

    def _look(self) -> None:
        now = self._clock()
        if now >= self._until:
            self.end()
            self._until = now + PERIOD


LIMITS: Final = LogLimits()
"""Those of this process's log."""
