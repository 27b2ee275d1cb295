"""A cell's part of limits that the host keeps to: it asks the keeper for each connection.

If the keeper does not answer in time, a place is refused, because the limit is never passed. This cell alone then
counts the rate of an address.
"""

import asyncio
from functools import partial
from typing import Any, Final, final

from broker.auth.authenticators.authenticator import Login
from broker.auth.authenticators.guard import digest
from broker.auth.authenticators.turn import Turn
from broker.auth.identity import Identity
from broker.broker import Broker
from broker.connection.connection_rate import ConnectionRate
from broker.connection.host_limits import HostLimits
from broker.quota import Usage
from broker.runtime.clock import monotonic_us
from broker.server.questions import Questions
from protocol import reason_codes
from protocol.errors import MQTTError

ALL: Final = ""
"""The key of all clients together."""
CONNECTIONS: Final = "connections"
KEPT: Final = "kept"
_TOO_FAST: Final = "too many connections a second from one IP address"
_LIMITS: Final = {CONNECTIONS: "max_connections", KEPT: "max_kept_sessions"}


class AskedLimits(HostLimits):
    """Asks about the clients of one cell."""

    def __init__(self, broker: Broker, questions: Questions) -> None:
        self._broker = broker
        self._questions = questions
        self._held: dict[str, int] = {}
        """Places that this cell has from the keeper, by what has a limit."""
        self._reserved: dict[str, int] = {}
        """Those of clients that are about to be connected."""
        self._own_rate: tuple[int, ConnectionRate] | None = None
        self._changed: dict[str | None, None] = {}
        """Users who may use more or less than before."""
        self._planned = False
        self._configured: object = None
        broker.clients.on_detached = self._plan
        broker.quotas.on_change = self._note_change
        self.look()

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
        """Places of `mqtt.max_connections`, and of the user's quota (FC-31); what is taken over counts once."""
        wanted = self._wanted(client_id, identity, kept)
        if not wanted:
            return None
        self._settle()
        turn = _turn()
        own = AskedPlaces(client_id, None if identity is None else identity.user, wanted)
        self._settle_user(own.user)
        then, late = partial(self._place_told, turn, own), partial(self._told_late, own)
        self._questions.ask("take", list(wanted.items()), then=then, late=late)
        return turn

    def _wanted(self, client_id: str, identity: Identity | None, kept: bool) -> dict[str, int]:
        """The limits that count for a client, by their keys."""
        quotas, most = self._broker.quotas, self._broker.settings.max_connections
        known = self._broker.clients.get(client_id)
        wanted = {ALL: most} if most and (known is None or known.connection is None) else {}
        if quotas.active:
            user = None if identity is None else identity.user
            quota = quotas.of(identity)
            own = known if known is not None and known.usage is not None and known.usage.user == user else None
            if quota.max_connections and not (own is not None and own.counted_connected):
                wanted[_key(CONNECTIONS, user)] = quota.max_connections
            if kept and quota.max_kept_sessions and not (own is not None and own.counted_kept):
                wanted[_key(KEPT, user)] = quota.max_kept_sessions
        return wanted

    def _place_told(self, turn: Turn, own: "AskedPlaces", answer: list[Any] | None) -> None:
        if answer is None:
            why = "the process that counts the connections of this host does not answer"
            _decide(turn, MQTTError(reason_codes.SERVER_UNAVAILABLE, why))
        elif answer[0] == ALL:
            why = f"{own.wanted[ALL]} clients are connected, as many as mqtt.max_connections allows"
            _decide(turn, MQTTError(reason_codes.QUOTA_EXCEEDED, why))
        elif answer[0] is not None:
            limit = _LIMITS[answer[0].partition(" ")[0]]
            quotas = self._broker.quotas
            _decide(turn, quotas.reached(limit, own.wanted[answer[0]], own.user, own.client_id, monotonic_us()))
        else:
            for key in own.wanted:
                self._held[key] = self._held.get(key, 0) + 1
                self._reserved[key] = self._reserved.get(key, 0) + 1
            _decide(turn, None)
            asyncio.get_running_loop().call_soon(self._end_reservation, own)  # the client has its place by then, or not

    def _told_late(self, own: "AskedPlaces", answer: list[Any]) -> None:
        if answer[0] is None:
            for key in own.wanted:
                self._questions.tell("add", key, -1)

    def _end_reservation(self, own: "AskedPlaces") -> None:
        for key in own.wanted:
            self._reserved[key] -= 1
            if self._reserved[key] == 0:
                del self._reserved[key]
        self._changed[own.user] = None
        self._settle()

    # -- what is used

    def _note_change(self, usage: Usage) -> None:
        self._changed[usage.user] = None
        self._plan()

    def _plan(self) -> None:
        """A client has gone: settle soon, because another connection may be about to take over."""
        if not self._planned and (self._held or self._changed):
            self._planned = True
            asyncio.get_running_loop().call_soon(self._settle)

    def look(self) -> None:
        """A reload may have set limits: what there is already counts."""
        quotas = self._broker.quotas
        if self._configured is not quotas.config:
            self._configured = quotas.config
            self._changed |= dict.fromkeys(quotas.users())
        self._settle()

    def _settle(self) -> None:
        """Give back the places of clients that have gone, and tell of those that came while there was no limit."""
        self._planned = False
        broker = self._broker
        self._use(ALL, broker.clients.online if broker.settings.max_connections else 0)
        changed, self._changed = self._changed, {}
        for user in changed:
            self._settle_user(user)

    def _settle_user(self, user: str | None) -> None:
        usage = self._broker.quotas.used_by(user) if self._broker.quotas.active else None
        self._use(_key(CONNECTIONS, user), 0 if usage is None else usage.connections)
        self._use(_key(KEPT, user), 0 if usage is None else usage.kept_sessions)

    def _use(self, key: str, count: int) -> None:
        """Hold as many places as are used, and those that are about to be."""
        needed, held = count + self._reserved.get(key, 0), self._held.get(key, 0)
        if needed == held:
            return
        self._questions.tell("add", key, needed - held)
        self._held[key] = needed
        if needed == 0:
            del self._held[key]


@final
class AskedPlaces:
    """The places that a client needs."""

    def __init__(self, client_id: str, user: str | None, wanted: dict[str, int]) -> None:
        """`wanted`: limits by their keys."""
        self.client_id = client_id
        self.user = user
        self.wanted = wanted


def _key(what: str, user: str | None) -> str:
    return what if user is None else f"{what} {digest(user).hex()}"


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
