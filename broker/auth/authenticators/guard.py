"""Slows those who try passwords: each failed login counts for its address, for its user, and for both together.

From half of a limit on, the answer to a failed login is delayed; at the limit further logins are refused, unread, until
`period` has passed without another failure. A user who has logged in from an address before is judged only by what has
failed for this user from this address: so nobody is locked out by others who try passwords for the same name, or who
share the address. A client without a user name is counted by its client id.
"""

from collections.abc import Hashable
from typing import Final

from broker.auth.authenticators.authenticator import Login
from broker.runtime.clock import SECOND
from config.access import FailedLogins

MOST_KEYS: Final = 10_000
"""Entries of each table, about 200 bytes each; past that the oldest goes."""

FIRST_DELAY: Final = SECOND // 4
"""Microseconds. Each further failure doubles it."""
LONGEST_DELAY: Final = 5 * SECOND


class Failures:
    """Failed logins by key: the last ones of each, without a longer pause than `period`."""

    def __init__(self, limit: int, period: int) -> None:
        """`limit`: 0 = none. `period` in microseconds."""
        self._limit = limit
        self._period = period
        self._entries: dict[Hashable, tuple[int, int]] = {}  # number of failures, time of the last; oldest first

    def __len__(self) -> int:
        return len(self._entries)

    def refused(self, key: Hashable, now: int) -> bool:
        """Whether the limit is reached."""
        return 0 < self._limit <= self._count(key, now)

    def add(self, key: Hashable, now: int) -> int:
        """Count a failure; returns by how many microseconds its answer is to be delayed."""
        if self._limit == 0:
            return 0
        count = self._count(key, now) + 1
        self._entries.pop(key, None)
        if len(self._entries) >= MOST_KEYS:
            del self._entries[next(iter(self._entries))]
        self._entries[key] = (count, now)
        beyond = count - self._limit // 2
        return 0 if beyond <= 0 else min(LONGEST_DELAY, FIRST_DELAY << min(beyond - 1, 10))

    def forget(self, key: Hashable) -> None:
        """A login has succeeded."""
        self._entries.pop(key, None)

    def _count(self, key: Hashable, now: int) -> int:
        count, at = self._entries.get(key, (0, 0))
        return count if now < at + self._period else 0


class Guard:
    """Counts failed logins of one broker."""

    def __init__(self, per_address: int, per_user: int, period: int) -> None:
        """Limits in failures, 0 = none; `period` in microseconds."""
        self._addresses = Failures(per_address, period)
        self._users = Failures(per_user, period)
        self._pairs = Failures(per_user, period)
        self._known: dict[tuple[str, bytes], None] = {}
        """User and address of logins that have succeeded, oldest first."""

    @staticmethod
    def of(settings: FailedLogins) -> "Guard":
        """The guard of a configuration."""
        return Guard(settings.per_address, settings.per_user, int(settings.period * SECOND))

    def refusal(self, login: Login, now: int) -> str:
        """Why a login is refused without a look at its password; empty if it is not."""
        address = login.network
        pair = (login.claimed, address)
        if self._pairs.refused(pair, now):
            return "too many failed logins of this user from this address"
        if pair in self._known:
            return ""
        if address and self._addresses.refused(address, now):
            return "too many failed logins from this address"
        if login.claimed and self._users.refused(login.claimed, now):
            return "too many failed logins of this user"
        return ""

    def failed(self, login: Login, now: int) -> int:
        """Count a failed login; returns by how many microseconds its answer is to be delayed."""
        address = login.network
        pair = (login.claimed, address)
        delay = self._pairs.add(pair, now)
        if pair in self._known:
            return delay
        if address:
            delay = max(delay, self._addresses.add(address, now))
        return max(delay, self._users.add(login.claimed, now)) if login.claimed else delay

    def succeeded(self, login: Login) -> None:
        """Remember a login that has succeeded."""
        pair = (login.claimed, login.network)
        self._pairs.forget(pair)
        self._known.pop(pair, None)
        if len(self._known) >= MOST_KEYS:
            del self._known[next(iter(self._known))]
        self._known[pair] = None
