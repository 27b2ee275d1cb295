"""Headers of the PROXY protocol: as proxies write them, cut anywhere, and wrong in every way."""

import struct
from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.server.proxy_header import MOST_BYTES, Header, HeaderError, read

SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
PORTS = st.integers(0, 65_535)


def binary(body: bytes, command: int = 0x21, family: int = 0x11) -> bytes:
    """A header of version 2."""
    return SIGNATURE + struct.pack("!BBH", command, family, len(body)) + body


def field(kind: int, value: bytes) -> bytes:
    """One TLV."""
    return struct.pack("!BH", kind, len(value)) + value


def tls(name: bytes, flags: int = 0x03, failed: int = 0) -> bytes:
    """What a proxy says of TLS, with the CN of a certificate."""
    return field(0x20, struct.pack("!BI", flags, failed) + field(0x21, b"TLSv1.3") + field(0x22, name))


FROM = bytes([10, 0, 0, 1, 127, 0, 0, 1]) + struct.pack("!HH", 4711, 1883)


def whole(data: bytes) -> Header:
    """A header that is complete, however it is cut: no part of it is taken for one, or for something else."""
    header = read(data)
    assert header is not None
    for end in range(1, header.length):
        assert read(data[:end]) is None
    return header


@given(st.ip_addresses(), st.ip_addresses(), PORTS, PORTS, st.binary(max_size=5))
def test_version_1(source: IPv4Address | IPv6Address, to: object, port: int, other: int, rest: bytes) -> None:
    """The address and port of a client, in the form of text."""
    family = f"TCP{source.version}"
    line = f"PROXY {family} {source} {source} {port} {other}\r\n".encode()
    header = whole(line + rest)
    assert header.length == len(line)
    assert header.origin is not None
    mapped = source.ipv4_mapped if isinstance(source, IPv6Address) else None
    assert ip_address(header.origin.host) == (mapped or source)
    assert header.origin.peer.endswith(f":{port}")


@given(st.ip_addresses(), PORTS, st.binary(max_size=5))
def test_version_2(source: IPv4Address | IPv6Address, port: int, rest: bytes) -> None:
    """The same in binary form, with the CN of a verified certificate."""
    family = 0x11 if source.version == 4 else 0x21
    body = source.packed * 2 + struct.pack("!HH", port, 1883) + field(0x04, bytes(3)) + tls("Zoë".encode())
    data = binary(body, family=family)
    header = whole(data + rest)
    assert header.length == len(data)
    assert header.origin is not None
    assert header.origin.common_name == "Zoë"
    mapped = source.ipv4_mapped if isinstance(source, IPv6Address) else None
    assert ip_address(header.origin.host) == (mapped or source)


@pytest.mark.parametrize(("flags", "failed"), [(0x01, 0), (0x03, 1), (0x00, 0)])
def test_certificate_that_is_not_verified(flags: int, failed: int) -> None:
    """A name counts only if the client has sent its certificate and the proxy has verified that."""
    header = whole(binary(FROM + tls(b"ann", flags, failed)))
    assert header.origin is not None
    assert header.origin.common_name == ""


def test_without_a_client() -> None:
    """A proxy that speaks for itself has no client; one that does not know the client's address says so."""
    assert whole(binary(b"", 0x20, 0)).origin is None
    lines = (b"PROXY UNKNOWN\r\n", b"PROXY UNKNOWN a b c d\r\n")
    for data in (*lines, binary(b"", family=0), binary(bytes(216), 0x21, 0x31)):
        header = whole(data)
        assert header.origin is not None
        assert header.origin.host == ""


@pytest.mark.parametrize(
    "data",
    [
        b"\x10\x0c\x00\x04MQTT",
        b"GET / HTTP/1.1\r\n",
        b"PROXY TCP4 10.0.0.1 10.0.0.2 1 2 3\r\n",
        b"PROXY TCP4 10.0.0.1 10.0.0.2 1\r\n",
        b"PROXY TCP4 10.0.0.256 10.0.0.2 1 2\r\n",
        b"PROXY TCP4 ::1 ::1 1 2\r\n",
        b"PROXY TCP6 fe80::1%eth0 ::1 1 2\r\n",
        b"PROXY TCP4 10.0.0.1 10.0.0.2 01 2\r\n",
        b"PROXY TCP4 10.0.0.1 10.0.0.2 +1 2\r\n",
        b"PROXY TCP4 10.0.0.1 10.0.0.2 65536 2\r\n",
        b"PROXY TCP4 10.0.0.1  10.0.0.2 1 2\r\n",
        b"PROXY \r\n",
        b"PROXY UNKNOWN " + b"x" * 100,
        binary(FROM[:-1]),
        binary(FROM, 0x31),
        binary(FROM, 0x22),
        binary(FROM + b"\x20\x00\xff"),
        binary(FROM + field(0x20, b"\1")),
        binary(FROM + tls(b"a\nb")),
        binary(FROM + tls(b"")),
        binary(FROM + tls(b"\xff")),
        SIGNATURE + struct.pack("!BBH", 0x21, 0x11, MOST_BYTES + 1),
    ],
)
def test_wrong(data: bytes) -> None:
    """What is not a header is refused, with a reason."""
    with pytest.raises(HeaderError, match="header"):
        read(data)


@given(st.one_of(st.binary(max_size=200), st.binary(max_size=100).map(lambda rest: SIGNATURE + rest)))
def test_any_bytes(data: bytes) -> None:
    """Any bytes are a header, the beginning of one, or refused: nothing else happens."""
    try:
        header = read(data)
    except HeaderError:
        return
    assert header is None or header.length <= len(data)
