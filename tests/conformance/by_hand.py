"""Encodes and decodes packets byte by byte, without our codec: the broker uses that, and could share its mistakes."""

import struct
import time
from collections.abc import Sequence

from tests.support.wire import WireClient

SUBSCRIBE = 0x82
SUBACK = 0x90
UNSUBSCRIBE = 0xA2
UNSUBACK = 0xB0
PINGREQ = b"\xc0\x00"
PINGRESP = b"\xd0\x00"


def packet(first: int, body: bytes) -> bytes:
    """Return a whole packet: first byte, remaining length, and what follows."""
    return bytes((first,)) + variable_byte_integer(len(body)) + body


def variable_byte_integer(number: int) -> bytes:
    """Return it with seven bits in each byte, lowest first; the top bit means that more bytes follow."""
    encoded = bytearray()
    while number > 127:
        encoded.append(number & 127 | 128)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def string(text: str | bytes) -> bytes:
    """Return it with its length in front; bytes are not changed, even if they are not valid UTF-8."""
    data = text.encode() if isinstance(text, str) else text
    return struct.pack("!H", len(data)) + data


def subscribe(
    version: int, packet_id: int, wanted: Sequence[tuple[str | bytes, int]], *, first: int = SUBSCRIBE
) -> bytes:
    """Return a SUBSCRIBE for pairs of topic filter and options byte."""
    pairs = b"".join(string(topic_filter) + bytes((options,)) for topic_filter, options in wanted)
    return packet(first, _head(version, packet_id) + pairs)


def unsubscribe(
    version: int, packet_id: int, topic_filters: Sequence[str | bytes], *, first: int = UNSUBSCRIBE
) -> bytes:
    """Return an UNSUBSCRIBE for these topic filters."""
    return packet(first, _head(version, packet_id) + b"".join(map(string, topic_filters)))


def publish(version: int, topic: str | bytes, payload: bytes = b"") -> bytes:
    """Return a PUBLISH with QoS 0."""
    return packet(0x30, string(topic) + (b"\0" if version == 5 else b"") + payload)


def _head(version: int, packet_id: int) -> bytes:
    return struct.pack("!H", packet_id) + (b"\0" if version == 5 else b"")


def receive(client: WireClient) -> tuple[int, bytes]:
    """Return the first byte and the body of the next packet. `client.receive()` must not have left bytes undecoded."""
    client.socket.settimeout(client.timeout)
    first = _exactly(client, 1)[0]
    length = shift = 0
    while True:
        byte = _exactly(client, 1)[0]
        length |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return first, _exactly(client, length)


def _exactly(client: WireClient, count: int) -> bytes:
    deadline = time.monotonic() + client.timeout
    data = b""
    while len(data) < count:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{len(data)} of {count} bytes within {client.timeout:g} s")
        news = client.socket.recv(count - len(data))
        if not news:
            raise ConnectionError("closed by the broker")
        data += news
    return data


def codes(version: int, body: bytes, packet_id: int) -> list[int]:
    """Return the codes of the SUBACK, or of the MQTT 5 UNSUBACK, with this packet identifier."""
    assert body[:2] == struct.pack("!H", packet_id)
    if version != 5:
        return list(body[2:])
    assert body[2] < 128, "more properties than these tests expect"
    return list(body[3 + body[2] :])
