"""Slows those who try passwords: each failed login counts for its address, for its user, and for both together.

From half of a limit on, the answer to a failed login is delayed; at the limit further logins are refused, unread, until
`period` has passed without another failure. A login that is being decided about counts as one that has failed: at the
limit the next one waits until it is known whether it has, so that trying many at once is no faster.

A user who has logged in from an address before is judged only by what has failed for this user from this address: so
nobody is locked out by others who try passwords for the same name, or who share the address. A client without a user
name is counted by its client id, one without an IP address (by a Unix socket, or `PROXY UNKNOWN`) by its user only: a
limit for all of these together would let one of them lock out the others.
"""

from collections.abc import Hashable
from hashlib import blake2b
from typing import Final

from broker.auth.authenticators.authenticator import Login
from broker.auth.authenticators.failures import MOST_WAITING, Failures
from broker.auth.authenticators.turn import Turn
from broker.runtime.clock import SECOND
from config.access import FailedLogins
from protocol import reason_codes
from protocol.errors import MQTTError

MOST_KNOWN: Final = 50_000
"""Users and addresses of logins that have succeeded, about 500 bytes each; past that the oldest goes."""
MOST_PLACES: Final = 16
"""Of these of one user: it takes no other user's room."""

DIGEST_BYTES: Final = 16

_Place = tuple[bytes, bytes]
"""The digest of whom a password was tried for, and the network."""


class Guard:
    """Counts failed logins of one broker."""

    def __init__(self, per_address: int, per_user: int, period: int) -> None:
        """Limits in failures, 0 = none; `period` in microseconds."""
        self._addresses = Failures(per_address, period)
        self._users = Failures(per_user, period)
        self._pairs = Failures(per_user, period)
        self._known: dict[_Place, bytes] = {}
        """Where logins have succeeded, and digests of which users; oldest first."""
        self._places: dict[bytes, dict[_Place, None]] = {}
        """The same by user."""

    @staticmethod
    def of(settings: FailedLogins) -> "Guard":
        """The guard of a configuration."""
        return Guard(settings.per_address, settings.per_user, int(settings.period * SECOND))

    # -- turns

    def enter(self, login: Login, now: int) -> Turn:
        """The turn of a login. The caller has to call `leave` when the login is decided."""
        turn = Turn(login)
        self.place(turn, now)
        return turn

    def leave(self, turn: Turn, now: int) -> None:
        """The login is decided, or nobody waits for it any longer: it is the turn of others."""
        turn.give_up()
        counted, turn.counted = turn.counted, []
        for failures, key in counted:
            failures.end(key)
        for failures, key in counted:
            while (waiting := failures.next(key, now)) is not None:
                self.place(waiting, now)

    def place(self, turn: Turn, now: int) -> None:
        """Decide whether a login is decided about now, waits or is refused."""
        if refusal := self.refusal(turn.login, now):
            turn.refuse(MQTTError(reason_codes.CONNECTION_RATE_EXCEEDED, refusal))
            return
        counted = self._counted(turn.login)
        for failures, key in counted:
            if failures.is_full(key, now):
                if not failures.wait(key, turn):
                    busy = f"{MOST_WAITING} logins of this user or from this address wait to be decided about"
                    turn.refuse(MQTTError(reason_codes.SERVER_BUSY, busy))
                return
        for failures, key in counted:
            failures.begin(key)
        turn.begin(counted)

    # -- failures

    def refusal(self, login: Login, now: int) -> str:
        """Why a login is refused without a look at its password; empty if it is not."""
        for failures, key in self._counted(login):
            if failures.refused(key, now):
                if failures is self._pairs:
                    return "too many failed logins of this user from this address"
                return f"too many failed logins {'of this user' if failures is self._users else 'from this address'}"
        return ""

    def failed(self, login: Login, now: int) -> int:
        """Count a failed login; returns by how many microseconds its answer is to be delayed."""
        return max(failures.add(key, now) for failures, key in self._counted(login))

    def delay(self, login: Login, now: int) -> int:
        """By how many microseconds the answer to this login would be delayed if it failed now."""
        return max(failures.delay(key, now) for failures, key in self._counted(login))

    def succeeded(self, login: Login, user: str) -> None:
        """Remember where a login has succeeded; `user`: who it is, empty for nobody."""
        place = (digest(login.claimed), login.network)
        self._pairs.forget(place)
        if not user:
            return
        self._forget(place)
        owner = digest(user)
        places = self._places.get(owner, ())
        if len(places) >= MOST_PLACES:
            self._forget(next(iter(places)))
        elif len(self._known) >= MOST_KNOWN:
            self._forget(next(iter(self._known)))
        self._known[place] = owner
        self._places.setdefault(owner, {})[place] = None

    def _forget(self, place: _Place) -> None:
        owner = self._known.pop(place, None)
        if owner is not None:
            del self._places[owner][place]
            if not self._places[owner]:
                del self._places[owner]

    def _counted(self, login: Login) -> list[tuple[Failures, Hashable]]:
        """Where a login counts."""
        claimed, address = digest(login.claimed), login.network
        counted: list[tuple[Failures, Hashable]] = [(self._pairs, (claimed, address))]
        if (claimed, address) not in self._known:
            if address:
                counted.append((self._addresses, address))
            if login.claimed:
                counted.append((self._users, claimed))
        return counted


def digest(name: str) -> bytes:
    """What stands for a name in the tables: names may have 64 KiB each, and anybody can send them."""
    return blake2b(name.encode(), digest_size=DIGEST_BYTES).digest()
