"""The network that an IP address is of: what is limited by address is limited by it."""

import socket
from typing import Final

_IPV4: Final = 4
"""Bytes of an IPv4 address."""
_MAPPED: Final = bytes(10) + b"\xff\xff"
"""Prefix of IPv4-mapped IPv6 addresses."""
_NETWORK: Final = 8
"""Bytes of an IPv6 address that name the network. One subscriber line has all addresses of a /64."""


def network(address: str) -> bytes:
    """An IPv4 address, or the /64 of an IPv6 address, as a key; one key for everything else."""
    host = address.partition("%")[0]
    try:
        packed = socket.inet_pton(socket.AF_INET6 if ":" in host else socket.AF_INET, host)
    except OSError:
        return b""
    if packed.startswith(_MAPPED):
        return packed[len(_MAPPED) :]
    return packed if len(packed) == _IPV4 else packed[:_NETWORK]
