"""A cell's part of limits that the host keeps to: it asks the keeper for each connection.

Who may not know fails as follows. Without an answer in time a place is refused, because the limit is never passed. The
rate of an address is then counted by this cell alone.
"""

import asyncio
from functools import partial
from typing import Any, Final

from broker.auth.authenticators.authenticator import Login
from broker.auth.authenticators.turn import Turn
from broker.auth.identity import Identity
from broker.broker import Broker
from broker.connection.connection_rate import ConnectionRate
from broker.connection.host_limits import HostLimits
from broker.runtime.clock import monotonic_us
from broker.server.questions import Questions
from protocol import reason_codes
from protocol.errors import MQTTError

ALL: Final = ""
"""The key of all clients together."""
_TOO_FAST: Final = "too many connections a second from one IP address"


class AskedLimits(HostLimits):
    """Asks about the clients of one cell."""

    def __init__(self, broker: Broker, questions: Questions) -> None:
        self._broker = broker
        self._questions = questions
        self._held = 0
        """Places that this cell has from the keeper."""
        self._reserved = 0
        """Those of clients that are about to be connected."""
        self._own_rate: tuple[int, ConnectionRate] | None = None
        self._planned = False
        broker.clients.on_detached = self._plan
        self.settle()

    # -- the rate of an address

    def rate(self, host: str) -> Turn | None:
        """Whether one more client may connect from this address now."""
        rate = self._broker.settings.max_connection_rate
        if not rate:
            return None
        turn = _turn()
        self._questions.ask("rate", host, rate, then=partial(self._rate_told, turn, host, rate))
        return turn

    def _rate_told(self, turn: Turn, host: str, rate: int, answer: bool | None) -> None:
        if answer is None:
            if self._own_rate is None or self._own_rate[0] != rate:
                self._own_rate = rate, ConnectionRate(rate)
            answer = self._own_rate[1].admit(host, monotonic_us())
        _decide(turn, None if answer else MQTTError(reason_codes.CONNECTION_RATE_EXCEEDED, _TOO_FAST))

    # -- places

    def place(self, client_id: str, identity: Identity | None, kept: bool) -> Turn | None:
        """A place of `mqtt.max_connections`; a take-over adds no connection."""
        most = self._broker.settings.max_connections
        known = self._broker.clients.get(client_id)
        if not most or (known is not None and known.connection is not None):
            return None
        self.settle()
        turn = _turn()
        wanted = [(ALL, most)]
        self._questions.ask("take", wanted, then=partial(self._place_told, turn, most), late=self._told_late)
        return turn

    def _place_told(self, turn: Turn, most: int, answer: list[Any] | None) -> None:
        if answer is None:
            why = "the process that counts the connections of this host does not answer"
            _decide(turn, MQTTError(reason_codes.SERVER_UNAVAILABLE, why))
        elif answer[0] is not None:
            why = f"{most} clients are connected, as many as mqtt.max_connections allows"
            _decide(turn, MQTTError(reason_codes.QUOTA_EXCEEDED, why))
        else:
            self._held += 1
            self._reserved += 1
            _decide(turn, None)
            asyncio.get_running_loop().call_soon(self._end_reservation)  # the client has got its place by then, or not

    def _told_late(self, answer: list[Any]) -> None:
        if answer[0] is None:
            self._questions.tell("add", ALL, -1)

    def _end_reservation(self) -> None:
        self._reserved -= 1
        self.settle()

    def _plan(self) -> None:
        """A client has gone: settle soon, because another connection may be about to take over."""
        if not self._planned and self._held:
            self._planned = True
            asyncio.get_running_loop().call_soon(self.settle)

    def settle(self) -> None:
        """Give back the places of clients that have gone, and tell of those that came while there was no limit."""
        self._planned = False
        needed = self._broker.clients.online + self._reserved if self._broker.settings.max_connections else 0
        if needed != self._held:
            self._questions.tell("add", ALL, needed - self._held)
            self._held = needed


def _turn() -> Turn:
    turn = Turn(Login("", None))
    turn.wait_in({})
    return turn


def _decide(turn: Turn, refusal: MQTTError | None) -> None:
    if not turn.waits:
        return
    if refusal is None:
        turn.begin([])
    else:
        turn.refuse(refusal)
