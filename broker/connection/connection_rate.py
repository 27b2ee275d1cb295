"""The rate at which clients may connect from one IP address: a token bucket for each recent IP address."""

from typing import Final, final

from broker.runtime.clock import SECOND
from broker.runtime.network import network

MOST_BUCKETS: Final = 50_000
"""Buckets of one second; past that those of the second before are forgotten, whose addresses have new ones."""


@final
class ConnectionRate:
    """Admits `rate` clients a second from each IP address; after a second without any, that many at once.

    A bucket is stored as the time at which it will be full again, at most a second after its last use. So only the
    buckets of this second and of the one before are kept.
    """

    def __init__(self, rate: int) -> None:
        self._refill: int = max(SECOND // rate, 1)
        self._full_at: dict[bytes, int] = {}
        self._earlier: dict[bytes, int] = {}
        self._since = 0

    def __len__(self) -> int:
        """How many buckets there are."""
        return len(self._full_at) + len(self._earlier)

    def admit(self, address: str, now: int) -> bool:
        """Whether a client may connect from `address` at `now`, in microseconds. A refused one costs no token."""
        if now - self._since >= SECOND:
            self._earlier = self._full_at if now - self._since < 2 * SECOND else {}
            self._full_at = {}
            self._since = now
        elif len(self._full_at) >= MOST_BUCKETS:
            self._earlier, self._full_at = self._full_at, {}
        key = network(address)
        full_at = max(self._full_at.get(key, self._earlier.get(key, 0)), now)
        allowed = full_at + self._refill - now <= SECOND
        self._full_at[key] = full_at + self._refill if allowed else full_at
        return allowed
