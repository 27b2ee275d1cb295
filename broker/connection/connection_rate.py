"""How fast clients may connect from one address: a token bucket for each address that somebody has just come from."""

import socket
from typing import Final, final

from broker.runtime.clock import SECOND

_IPV4: Final = 4
"""Bytes of an IPv4 address."""
_MAPPED: Final = bytes(10) + b"\xff\xff"
"""How IPv6 addresses begin that stand for an IPv4 address."""
_NETWORK: Final = 8
"""Bytes of an IPv6 address that name the network. One subscriber line has a whole network to take addresses from."""


@final
class ConnectionRate:
    """Lets in `rate` clients a second from each address; after a second's silence, that many at once.

    A bucket is the moment at which it will be full again. It is full a second after it was last asked at the latest,
    so it need not be kept longer: those of this second and of the one before are all that there are.
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
        """Whether one more may come in from `address` at `now`, in microseconds. Who may not costs no token."""
        if now - self._since >= SECOND:
            self._earlier = self._full_at if now - self._since < 2 * SECOND else {}
            self._full_at = {}
            self._since = now
        key = network(address)
        full_at = max(self._full_at.get(key, self._earlier.get(key, 0)), now)
        allowed = full_at + self._refill - now <= SECOND
        self._full_at[key] = full_at + self._refill if allowed else full_at
        return allowed


def network(address: str) -> bytes:
    """What is limited together: an IPv4 address, the /64 of an IPv6 address; everything that is neither."""
    host = address.partition("%")[0]
    try:
        packed = socket.inet_pton(socket.AF_INET6 if ":" in host else socket.AF_INET, host)
    except OSError:
        return b""
    if packed.startswith(_MAPPED):
        return packed[len(_MAPPED) :]
    return packed if len(packed) == _IPV4 else packed[:_NETWORK]
