"""What the keeper counts for all cells: connections, their rate by address, failed logins and totals.

Whatever a process has taken is free again when it ends.
"""

import json
from collections.abc import Callable
from functools import partial
from typing import Any, Final, final

from broker.auth.authenticators.authenticator import Login
from broker.auth.authenticators.guard import Guard
from broker.auth.authenticators.turn import Turn
from broker.connection.connection_rate import ConnectionRate
from broker.runtime.clock import monotonic_us
from broker.server.asked_totals import SummedTotals
from broker.server.questions import WAITS
from broker.telemetry.host_totals import Counts
from config.access import FailedLogins

Answer = Callable[[int, Any], None]
"""Sends the answer to the question with a number."""


@final
class HostCounts:
    """The counts of all cells."""

    def __init__(self, failed_logins: FailedLogins) -> None:
        self.guard = Guard.of(failed_logins)
        self.totals = SummedTotals()
        self._used: dict[str, dict[int, int]] = {}
        """How many places each cell has, by what has a limit."""
        self._rate: tuple[int, ConnectionRate] | None = None

    def take(self, cell: int, wanted: list[tuple[str, int]]) -> str | None:
        """Take one of each, if none has reached its limit; else returns the first that has."""
        for key, limit in wanted:
            if sum(self._used.get(key, {}).values()) >= limit:
                return key
        for key, _ in wanted:
            self.add(cell, key, 1)
        return None

    def add(self, cell: int, key: str, count: int) -> None:
        """A cell has more, or less, of something, whatever the limit is."""
        used = self._used.setdefault(key, {})
        used[cell] = used.get(cell, 0) + count
        if used[cell] <= 0:
            del used[cell]
            if not used:
                del self._used[key]

    def free(self, cell: int) -> None:
        """A cell has ended."""
        self.totals.end(cell)
        self._used = {key: left for key, used in self._used.items() if (left := _without(used, cell))}

    def admit(self, host: str, rate: int) -> bool:
        """Whether one more client may connect from an address, at this rate."""
        if self._rate is None or self._rate[0] != rate:
            self._rate = rate, ConnectionRate(rate)
        return self._rate[1].admit(host, monotonic_us())


def _without(used: dict[int, int], cell: int) -> dict[int, int]:
    return {each: count for each, count in used.items() if each != cell}


@final
class CellQuestions:
    """Answers the questions of one process."""

    def __init__(self, counts: HostCounts, cell: int, write: Callable[[bytes], None]) -> None:
        self._counts = counts
        self._cell = cell
        self._write = write
        self._turns: dict[int, Turn] = {}
        self._kinds: Final[dict[str, Callable[..., None]]] = {
            "take": self._take,
            "add": partial(counts.add, cell),
            "rate": self._ask_rate,
            "enter": self._enter,
            "leave": self._leave,
            "failed": self._failed,
            "succeeded": self._succeeded,
            "totals": self._totals,
        }

    def heard(self, line: bytes) -> None:
        """It asks or tells something."""
        kind, *more = json.loads(line)
        self._kinds[kind](*more)

    def end(self) -> None:
        """It has ended."""
        self._write = _nowhere
        self._counts.free(self._cell)
        for number in list(self._turns):
            self._leave(number)

    def _answer(self, number: int, answer: Any) -> None:
        self._write(json.dumps([number, answer]).encode() + b"\n")

    def _take(self, number: int, wanted: list[tuple[str, int]]) -> None:
        self._answer(number, [self._counts.take(self._cell, wanted)])

    def _totals(self, number: int, counters: Counts, gauges: Counts) -> None:
        self._answer(number, self._counts.totals.tell(self._cell, counters, gauges))

    def _ask_rate(self, number: int, host: str, rate: int) -> None:
        self._answer(number, self._counts.admit(host, rate))

    def _enter(self, number: int, claimed: str, host: str) -> None:
        turn = self._turns[number] = self._counts.guard.enter(_login(claimed, host), monotonic_us())
        if turn.waiting is None or turn.waiting.done():
            self._decided(number, turn)
            return
        self._answer(number, WAITS)
        turn.waiting.add_done_callback(lambda _: self._decided(number, turn))

    def _decided(self, number: int, turn: Turn) -> None:
        refusal = turn.refusal
        if refusal is None:
            self._answer(number, self._counts.guard.delay(turn.login, monotonic_us()))
        else:
            self._answer(number, [refusal.reason_code, refusal.message])

    def _leave(self, number: int) -> None:
        turn = self._turns.pop(number, None)
        if turn is not None:
            self._counts.guard.leave(turn, monotonic_us())

    def _failed(self, claimed: str, host: str) -> None:
        self._counts.guard.failed(_login(claimed, host), monotonic_us())

    def _succeeded(self, claimed: str, host: str, user: str) -> None:
        self._counts.guard.succeeded(_login(claimed, host), user)


def _nowhere(_: bytes) -> None:
    """Its process has ended."""


def _login(claimed: str, host: str) -> Login:
    return Login(claimed, None, host=host)
