"""Reads the header that a proxy sends before a client's bytes: PROXY protocol, versions 1 and 2.

https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt, sections 2.1 and 2.2. The package proxy-protocol reads them
too, but it takes headers of any length, and numbers and addresses in forms that the specification does not have.
"""

import re
import struct
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import Final, NamedTuple

from broker.runtime.origin import Origin

LONGEST_LINE: Final = 107
"""Bytes of version 1, with its end."""
MOST_BYTES: Final = 8_192
"""Bytes of version 2 behind its first 16: addresses, and what else the proxy says (TLVs)."""

_SIGNATURE: Final = b"\r\n\r\n\0\r\nQUIT\n"
_WORD: Final = b"PROXY "
_HEAD: Final = struct.Struct("!12sBBH")
_IPV4: Final = struct.Struct("!4s4sHH")
_IPV6: Final = struct.Struct("!16s16sHH")
_TLV: Final = struct.Struct("!BH")
_TLS: Final = struct.Struct("!BI")
_VERSION: Final = 2
_LOCAL: Final = 0
_PROXY: Final = 1
_INET: Final = 1
_INET6: Final = 2
_STREAM: Final = 1
_TLS_TYPE: Final = 0x20
"""PP2_TYPE_SSL."""
_COMMON_NAME: Final = 0x22
"""PP2_SUBTYPE_SSL_CN."""
_WITH_CERTIFICATE: Final = 0x06
"""PP2_CLIENT_CERT_CONN or PP2_CLIENT_CERT_SESS: the client has sent a certificate, on this connection or before."""
_PORT: Final = re.compile(rb"0|[1-9][0-9]{0,4}")
_LONGEST_NAME: Final = 1_024


class HeaderError(Exception):
    """These bytes are not a header."""


class Header(NamedTuple):
    """A header that is complete."""

    length: int
    """Its bytes; the client's follow."""
    origin: Origin | None
    """None: the proxy speaks for itself, as in its health checks."""


def read(data: bytes) -> Header | None:
    """The header at the beginning of what has been received; None if it is not complete. Raises HeaderError."""
    if data.startswith(_WORD[: len(data)]):
        return _read_line(data)
    if data.startswith(_SIGNATURE[: len(data)]):
        return _read_binary(data)
    raise HeaderError("it begins with something else than a PROXY header")


def _read_line(data: bytes) -> Header | None:
    line, end, _ = data[:LONGEST_LINE].partition(b"\r\n")
    if not end:
        if len(data) >= LONGEST_LINE:
            raise HeaderError(f"a header of version 1 of more than {LONGEST_LINE} bytes")
        return None
    length = len(line) + len(end)
    fields = line.split(b" ")
    if fields[1] == b"UNKNOWN":
        return Header(length, Origin("", "unknown"))
    if len(fields) != 6 or fields[1] not in (b"TCP4", b"TCP6") or b"%" in line:  # % begins a zone
        raise HeaderError("a header of version 1 that is not TCP4, TCP6 or UNKNOWN with two addresses and ports")
    try:
        address, _ = (
            IPv4Address(text.decode()) if fields[1] == b"TCP4" else IPv6Address(text.decode()) for text in fields[2:4]
        )
    except (AddressValueError, UnicodeDecodeError):
        raise HeaderError("a header of version 1 with something else than addresses") from None
    if any(not _PORT.fullmatch(port) or int(port) > 65_535 for port in fields[4:]):
        raise HeaderError("a header of version 1 with something else than ports")
    return Header(length, _origin(address, int(fields[4])))


def _read_binary(data: bytes) -> Header | None:
    if len(data) < _HEAD.size:
        return None
    _, version, family, size = _HEAD.unpack_from(data)
    command = version & 0x0F
    if version >> 4 != _VERSION or command not in (_LOCAL, _PROXY):
        raise HeaderError(f"a header of an unknown version or command (0x{version:02X})")
    if size > MOST_BYTES:
        raise HeaderError(f"a header of {size} bytes; at most {MOST_BYTES} are read")
    length = _HEAD.size + size
    if len(data) < length:
        return None
    body = data[_HEAD.size : length]
    if command == _LOCAL:
        return Header(length, None)
    try:
        return Header(length, _proxied(family, body))
    except struct.error:
        raise HeaderError("a header that is too short for what it says that it holds") from None


def _proxied(family: int, body: bytes) -> Origin:
    if family == _INET << 4 | _STREAM:
        source, _, port, _ = _IPV4.unpack_from(body)
        return _origin(IPv4Address(source), port, _common_name(body[_IPV4.size :]))
    if family == _INET6 << 4 | _STREAM:
        source, _, port, _ = _IPV6.unpack_from(body)
        return _origin(IPv6Address(source), port, _common_name(body[_IPV6.size :]))
    return Origin("", "unknown")  # not specified, datagrams, a Unix socket


def _origin(address: IPv4Address | IPv6Address, port: int, common_name: str = "") -> Origin:
    if isinstance(address, IPv6Address):
        mapped = address.ipv4_mapped
        return Origin(str(mapped or address), f"{mapped}:{port}" if mapped else f"[{address}]:{port}", common_name)
    return Origin(str(address), f"{address}:{port}", common_name)


def _common_name(rest: bytes) -> str:
    """The CN of a certificate that the proxy has verified; empty if there is none. Raises struct.error."""
    for kind, value in _fields(rest):
        if kind == _TLS_TYPE:
            client, failed = _TLS.unpack_from(value)
            if failed or not client & _WITH_CERTIFICATE:
                return ""
            for own, text in _fields(value[_TLS.size :]):
                if own == _COMMON_NAME:
                    return _text(text)
    return ""


def _fields(rest: bytes) -> list[tuple[int, bytes]]:
    found: list[tuple[int, bytes]] = []
    position = 0
    while position < len(rest):
        kind, size = _TLV.unpack_from(rest, position)
        position += _TLV.size
        if position + size > len(rest):
            raise HeaderError("a header with a field that is longer than the header")
        found.append((kind, rest[position : position + size]))
        position += size
    return found


def _text(value: bytes) -> str:
    """A name of a certificate as a user name of MQTT. Raises HeaderError if it cannot be one."""
    try:
        name = value.decode()
    except UnicodeDecodeError:
        name = ""
    if not name or len(value) > _LONGEST_NAME or not name.isprintable():
        raise HeaderError("a header with a common name that is not printable text")
    return name
