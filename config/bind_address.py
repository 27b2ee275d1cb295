"""Bind addresses of listeners: parsing and comparing. A host and port, a Unix socket, or a socket of systemd."""

import ipaddress
import re
from dataclasses import dataclass
from typing import Final

from config.units import found

MAX_PORT: Final = 65_535

_EXPECTED: Final = "write host:port such as 127.0.0.1:1883, or for IPv6 with brackets such as [::1]:1883"
UNIX: Final = "unix:"
SYSTEMD: Final = "systemd:"
LONGEST_PATH: Final = 107
"""Bytes of a Unix socket's path, the kernel's limit."""
_UNIT_NAME: Final = re.compile(r"[!-9;-~]{1,255}", re.ASCII)
_LOCALHOST: Final = (ipaddress.IPv4Address("127.0.0.1"), ipaddress.IPv6Address("::1"))
_HOST_LABEL: Final = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)", re.ASCII)
_LOOKS_IPV4: Final = re.compile(r"[0-9.]+", re.ASCII)


@dataclass(frozen=True)
class BindAddress:
    """A bind address: `text` as written, `host` without brackets, `port` (0 = any free port).

    `path` is that of a Unix socket, `unit` the name of a socket that systemd passes; of the three one is not empty.
    """

    text: str
    host: str
    port: int
    path: str = ""
    unit: str = ""

    @property
    def ip(self) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
        """The IP address; None if the host is a name."""
        try:
            return ipaddress.ip_address(self.host)
        except ValueError:
            return None

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it; any name but localhost counts as reachable, and so does systemd's."""
        if self.path:
            return True
        ip = self.ip
        if ip is None:
            return self.host.lower().rstrip(".") == "localhost"
        mapped = ip.ipv4_mapped if isinstance(ip, ipaddress.IPv6Address) else None
        return (mapped or ip).is_loopback

    def clashes(self, other: "BindAddress") -> bool:
        """Whether both cannot be bound at once: same port, and the same host or a wildcard of the same family."""
        if self.path or self.unit:
            return (self.path, self.unit) == (other.path, other.unit)
        if self.port == 0 or self.port != other.port:
            return False
        if self.host.lower() == other.host.lower():
            return True
        pairs = [(mine, theirs) for mine in self._ips for theirs in other._ips if mine.version == theirs.version]
        return any(mine == theirs or mine.is_unspecified or theirs.is_unspecified for mine, theirs in pairs)

    @property
    def _ips(self) -> tuple[ipaddress.IPv4Address | ipaddress.IPv6Address, ...]:
        """Those that are known without asking: localhost is bound in both families."""
        if self.host.lower() == "localhost":
            return _LOCALHOST
        return () if self.ip is None else (self.ip,)


def parse(value: object) -> BindAddress:
    """Parse a bind address. Raises ValueError with what was found and what was expected."""
    if not isinstance(value, str):
        raise ValueError(f"found {found(value)}: {_EXPECTED}")
    text = value.strip()
    if text.startswith(UNIX):
        return BindAddress(text, "", 0, path=_path(text.removeprefix(UNIX), value))
    if text.startswith(SYSTEMD):
        unit = text.removeprefix(SYSTEMD)
        if not _UNIT_NAME.fullmatch(unit):
            raise ValueError(f"found {found(value)}: write systemd: and the FileDescriptorName= of a .socket unit")
        return BindAddress(text, "", 0, unit=unit)
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


def _path(path: str, value: str) -> str:
    if not path or "\0" in path or len(path.encode()) > LONGEST_PATH:
        raise ValueError(f"found {found(value)}: write unix: and the path of a socket, 1 to {LONGEST_PATH} bytes")
    return path


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
