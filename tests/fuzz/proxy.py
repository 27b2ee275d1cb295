"""Headers of the PROXY protocol as a target: what a trusted proxy sends before a client's bytes."""

import asyncio
import random
import struct
from ipaddress import IPv6Address, ip_address
from types import SimpleNamespace
from typing import TYPE_CHECKING, Final, cast

import structlog

from broker.events import Events
from broker.runtime.origin import Origin
from broker.runtime.timers import Wheel
from broker.server.proxy_header import LONGEST_LINE, MOST_BYTES, Header, HeaderError, read
from broker.server.proxy_protocol import ProxiedListener
from config.models import ProxyProtocol
from tests.fuzz.raw import Raw, check_message

if TYPE_CHECKING:
    from broker.settings import Settings

SIGNATURE: Final = b"\r\n\r\n\0\r\nQUIT\n"
ADDRESSES: Final = ("192.0.2.1", "2001:db8::1", "::ffff:192.0.2.1", "::", "fe80::1%eth0", "256.1.1.1", "01.1.1.1", "1")
LONGEST_HEADER: Final = 16 + MOST_BYTES
SETTINGS: Final = cast("Settings", SimpleNamespace(connect_timeout=1))


class Connection:
    """A transport of a proxy's connection, and the protocol of its client behind the header."""

    def __init__(self) -> None:
        self.protocol: object = None
        self.origin: Origin | None = None
        self.received = b""
        self.aborted = False

    def following(self, origin: Origin | None) -> asyncio.Protocol:
        """The header is read."""
        self.origin = origin
        return cast("asyncio.Protocol", self)

    def set_protocol(self, protocol: object) -> None:
        """Another one takes over."""
        self.protocol = protocol

    def get_protocol(self) -> object:
        """The one that has taken over."""
        return self.protocol

    def get_extra_info(self, name: str) -> object:
        """The proxy's address."""
        return ("127.0.0.1", 1) if name == "peername" else None

    def abort(self) -> None:
        """The connection is refused."""
        self.aborted = True

    def connection_made(self, _: object) -> None:
        """As the client's protocol."""

    def data_received(self, data: bytes) -> None:
        """As the client's protocol."""
        self.received += data


class ProxyHeader(Raw):
    """A header or HeaderError, the same for any pieces; what is behind it is the client's, whole."""

    name = "proxy"
    most_bytes = 9_000
    parts = (
        b"PROXY TCP4 192.0.2.1 192.0.2.2 1 65535\r\n",
        b"PROXY TCP6 2001:db8::1 :: 0 65536\r\n",
        b"PROXY UNKNOWN and anything else\r\n",
        SIGNATURE,
        b"\r\n",
        b"\x10\x0c\x00\x04MQTT",
    )

    def piece(self, source: random.Random) -> bytes:
        """A header, or a part of one."""
        kind = source.randrange(4)
        if kind == 0:
            return source.choice(self.parts)
        if kind == 1:
            one, other = (source.choice(ADDRESSES) for _ in range(2))
            ports = (source.choice(("0", "1883", "65535", "65536", "007", "-1")) for _ in range(2))
            return f"PROXY {source.choice(('TCP4', 'TCP6'))} {one} {other} {' '.join(ports)}\r\n".encode()
        fields = b"".join(_field(source) for _ in range(source.randrange(4)))
        if kind == 2:
            return fields
        size, family = source.choice(((12, 0x11), (36, 0x21), (216, 0x31), (0, 0), (36, 0x11), (12, 0x21)))
        command = source.choice((0x21, 0x21, 0x21, 0x20, 0x22, 0x11))
        body = source.randbytes(size) + fields
        return SIGNATURE + struct.pack("!BBH", command, family, len(body)) + body

    def check(self, data: bytes) -> None:
        """Read what has come so far, byte by byte, then as a connection gets it."""
        whole = outcome(data)
        step = 1 if len(data) < 300 else 97
        for end in range(0, len(data), step):
            sooner = outcome(data[:end])
            assert sooner is None or sooner == whole, f"after {end} bytes it is something else"
        if whole is None:
            assert len(data) < (LONGEST_LINE if data.startswith(b"P") else LONGEST_HEADER), "it waits for ever"
        elif isinstance(whole, Header):
            _check_header(data, whole)
        for size in (len(data) or 1, 7):
            _check_connection(data, whole, size)


def outcome(data: bytes) -> Header | str | None:
    """The header, what is wrong, or None if more has to come."""
    try:
        return read(data)
    except HeaderError as error:
        check_message(error)
        return str(error)


def _check_header(data: bytes, header: Header) -> None:
    assert header.length <= len(data), "more than has come"
    origin = header.origin
    if origin is None or not origin.host:
        assert origin is None or not origin.common_name, "a name without an address"
        return
    address = ip_address(origin.host)
    assert str(address) == origin.host, "an address that rules would not recognize"
    assert not (isinstance(address, IPv6Address) and address.ipv4_mapped), "an IPv4 address that is not one"
    assert not origin.common_name or origin.common_name.isprintable()
    if data.startswith(b"P"):
        kind, source, _, port = data[: header.length].decode().split(" ")[1:5]
        assert origin.peer.endswith(f":{port}"), "another port"
        assert kind in ("TCP4", "TCP6")
        given = ip_address(source)
        assert address == (getattr(given, "ipv4_mapped", None) or given), "another address"


def _check_connection(data: bytes, expected: Header | str | None, size: int) -> None:
    """The bytes of a connection in pieces of this size."""
    connection = Connection()
    events = cast("Events", SimpleNamespace(log=structlog.get_logger("sluice")))
    own = ProxyProtocol(trusted=["127.0.0.1"])
    listener = ProxiedListener(events, Wheel(0), SETTINGS, "fuzzed", own, connection.following)
    connection.protocol = proxied = listener.accept()
    proxied.connection_made(cast("asyncio.Transport", connection))
    for at in range(0, len(data), size):
        connection.protocol.data_received(data[at : at + size])
    assert connection.aborted == isinstance(expected, str), "refused, or not"
    if isinstance(expected, Header):
        assert connection.origin == expected.origin, "of somebody else"
        assert connection.received == data[expected.length :], "not what the client has sent"
    else:
        assert connection.protocol is proxied
    assert len(listener.ongoing) == (expected is None), "a connection that is over is kept, or one that is not is lost"


def _field(source: random.Random) -> bytes:
    kind = source.choice((0x01, 0x05, 0x20, 0x21, 0x22, source.randrange(256)))
    value = source.choice((b"", b"client", b"\xff", b"a\nb", source.randbytes(source.randrange(30))))
    if kind == 0x20:
        inner = struct.pack("!BH", 0x22, len(value)) + value
        value = struct.pack("!BI", source.randrange(8), source.choice((0, 0, 1))) + inner
    length = len(value) if source.random() < 0.9 else source.randrange(65_536)
    return struct.pack("!BH", kind, length) + value
