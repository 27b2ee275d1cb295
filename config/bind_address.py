"""Bind addresses of listeners, `host:port` and `[IPv6 address]:port`: parsing and comparing."""

import ipaddress
import re
from dataclasses import dataclass
from typing import Final

from config.units import found

MAX_PORT: Final = 65_535

_EXPECTED: Final = "write host:port such as 127.0.0.1:1883, or for IPv6 with brackets such as [::1]:1883"
_HOST_LABEL: Final = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)", re.ASCII)
_LOOKS_IPV4: Final = re.compile(r"[0-9.]+", re.ASCII)


@dataclass(frozen=True)
class BindAddress:
    """A bind address: `text` as written, `host` without brackets, `port` (0 = any free port)."""

    text: str
    host: str
    port: int

    @property
    def ip(self) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
        """The IP address; None if the host is a name."""
        try:
            return ipaddress.ip_address(self.host)
        except ValueError:
            return None

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it; any name but localhost counts as reachable."""
        ip = self.ip
        if ip is None:
            return self.host.lower().rstrip(".") == "localhost"
        mapped = ip.ipv4_mapped if isinstance(ip, ipaddress.IPv6Address) else None
        return (mapped or ip).is_loopback

    def clashes(self, other: "BindAddress") -> bool:
        """Whether both cannot be bound at once: same port, and the same host or a wildcard of the same family."""
        if self.port == 0 or self.port != other.port:
            return False
        mine, theirs = self.ip, other.ip
        if mine is None or theirs is None:
            return self.host.lower() == other.host.lower()
        same_family = mine.version == theirs.version
        return mine == theirs or (same_family and (mine.is_unspecified or theirs.is_unspecified))


def parse(value: object) -> BindAddress:
    """Parse a bind address. Raises ValueError with what was found and what was expected."""
    if not isinstance(value, str):
        raise ValueError(f"found {found(value)}: {_EXPECTED}")
    text = value.strip()
    host, separator, port_text = text.rpartition(":")
    if not separator:
        raise ValueError(f"found {found(value)}, which has no port: {_EXPECTED}")
    if not re.fullmatch(r"[0-9]{1,5}", port_text, re.ASCII) or int(port_text) > MAX_PORT:
        raise ValueError(f"found {found(value)}, and {found(port_text)} is not a port (0 to {MAX_PORT}): {_EXPECTED}")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
        _check_ipv6(host, value)
    else:
        _check_host(host, value)
    return BindAddress(text, host, int(port_text))


def _check_ipv6(host: str, value: str) -> None:
    try:
        ipaddress.IPv6Address(host)
    except ValueError:
        raise ValueError(f"found {found(value)}, and {found(host)} is not an IPv6 address: {_EXPECTED}") from None


def _check_host(host: str, value: str) -> None:
    if host in ("", "*"):
        raise ValueError(f"found {found(value)}: for all addresses write 0.0.0.0:port or [::]:port")
    if ":" in host:
        raise ValueError(f"found {found(value)}, an IPv6 address without brackets: {_EXPECTED}")
    if _LOOKS_IPV4.fullmatch(host):
        try:
            ipaddress.IPv4Address(host)
        except ValueError:
            raise ValueError(f"found {found(value)}, and {found(host)} is not an IPv4 address: {_EXPECTED}") from None
    elif len(host) > 253 or not all(_HOST_LABEL.fullmatch(label) for label in host.rstrip(".").split(".")):
        raise ValueError(f"found {found(value)}, and {found(host)} is not a host name: {_EXPECTED}")
