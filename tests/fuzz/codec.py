"""The codec as a target: a stream of bytes, cut into pieces, through the decoder and back.

The input's first byte chooses the version that the decoder knows and whether packets are limited in size, the second
how long the pieces are; the rest is the stream.
"""

import random
from collections.abc import Iterator
from typing import Final, NamedTuple

from protocol import properties as props
from protocol.connect import Connect
from protocol.decoder import Decoder
from protocol.errors import MQTTError
from protocol.packet import Packet
from protocol.properties import Properties
from protocol.publish import Publish
from tests.fuzz import mutation
from tests.fuzz.packets import any_packet
from tests.fuzz.target import Native
from tests.support.protocol.packets import Content, content, decode_one, decode_pieces, drain, plain

VERSIONS: Final = (0, 4, 5)
LIMIT: Final = 64
"""Bytes of the largest packet, where there is a limit."""
BEFORE: Final = Publish(b"before", b"\0").encode(4)
"""A PUBLISH in both versions; in MQTT 5 its payload is the length of its properties."""
HEX_BYTES: Final = 32
"""Bytes in a line of a file."""


class Case(NamedTuple):
    """One input, taken apart."""

    version: int
    limit: int
    piece: int
    """Bytes in each piece; 0 = the whole stream at once."""
    stream: bytes

    @classmethod
    def of(cls, data: bytes) -> "Case":
        """Read an input; every input is valid, even an empty one."""
        choice, piece = (data[0], data[1]) if len(data) > 1 else (0, 0)
        return cls(VERSIONS[(choice & 0x7F) % 3], LIMIT if choice & 0x80 else 0, piece, data[2:])

    def pieces(self) -> list[bytes]:
        """Return the stream as the decoder gets it."""
        size = self.piece or len(self.stream)
        return [self.stream[at : at + size] for at in range(0, len(self.stream), size or 1)]


class Codec:
    """Whatever comes: MQTTError or packets, the same for any pieces, and each packet survives the way back."""

    name = "codec"
    most_bytes = 4096

    def check(self, data: bytes) -> None:
        """Decode whole and in pieces, count what has come out, and encode it."""
        case = Case.of(data)
        packets, error = whole = decode_pieces([case.stream], case.version, case.limit)
        assert decode_pieces(case.pieces(), case.version, case.limit) == whole, "pieces make a difference"
        frames = list(_frames(case))
        assert len(packets) <= len(frames), "a packet that is not complete, or too large"
        assert error is not None or len(packets) == len(frames), "a packet is missing"
        for _ in _packets(case):
            pass

    def trace(self, data: bytes) -> Iterator[str]:
        """Tell what comes out of the stream."""
        case = Case.of(data)
        yield f"version {case.version}, limit {case.limit}, pieces of {case.piece or 'all'}, {len(case.stream)} bytes"
        for packet in _packets(case):
            yield repr(packet)
        self.check(data)

    def mutate(self, source: random.Random, data: bytes, native: Native) -> bytes:
        """Change bytes, or whole packets, after which lengths are often put right."""
        head, stream = data[:2].ljust(2, b"\0"), data[2:]
        kind = source.randrange(8)
        if kind == 0:
            head = source.randbytes(2) if source.random() < 0.5 else bytes((head[0], source.randrange(5)))
        elif kind == 1:
            stream += any_packet(source, source.choice((4, 5)))
        elif kind == 2:
            stream = any_packet(source, source.choice((4, 5))) + stream
        elif kind == 3:
            stream = mutation.damage(source, stream)
        elif kind == 4:
            stream = mutation.damage(source, any_packet(source, source.choice((4, 5))))
        else:
            return native(data)
        return head + (mutation.fix_length(stream) if source.random() < 0.5 else stream)

    def cross(self, source: random.Random, one: bytes, other: bytes) -> bytes:
        """Put the streams one behind the other, each up to anywhere."""
        return one[: source.randint(2, max(2, len(one)))] + other[source.randint(2, max(2, len(other))) :]

    def smaller(self, data: bytes) -> Iterator[bytes]:
        """Leave out bytes of the stream."""
        size = len(data) - 2
        while size > 0:
            for at in range(2, len(data), size):
                yield data[:at] + data[at + size :]
            size //= 2

    def parse(self, text: str) -> bytes:
        """Read hexadecimal digits."""
        return bytes.fromhex(text)

    def render(self, data: bytes) -> str:
        """Write hexadecimal digits, two bytes in the first line, and say what they choose."""
        case = Case.of(data)
        size = f"pieces of {case.piece}" if case.piece else "in one piece"
        lines = [f"{data[:2].hex(' ')}  # version {case.version}, limit {case.limit}, {size}"]
        lines += [data[at : at + HEX_BYTES].hex(" ") for at in range(2, len(data), HEX_BYTES)]
        return "\n".join(lines) + "\n"


def _frames(case: Case) -> Iterator[bytes]:
    """Cut the stream into packets by Remaining Length alone, as long as that may go on."""
    stream, start = case.stream, 0
    while start < len(stream):
        length = shift = 0
        position = start + 1
        more = True
        while more and position < len(stream) and shift < 28:
            length |= (stream[position] & 0x7F) << shift
            more = stream[position] >= 0x80
            position += 1
            shift += 7
        end = position + length
        if more or end > len(stream) or end - start > case.limit > 0:
            return
        yield stream[start:end]
        start = end


def _packets(case: Case) -> Iterator[Packet]:
    """Decode in pieces and hold the decoder and each packet to what they promise."""
    decoder = Decoder(case.limit, version=case.version)
    fed = 0
    try:
        for piece in case.pieces():
            decoder.feed(piece)
            fed += len(piece)
            while (packet := decoder.next_packet()) is not None:
                _survives(packet, decoder.version)
                yield packet
            assert decoder.buffered <= min(fed, case.limit or fed), "more is kept than can be needed"
    except MQTTError as error:
        _stays_refused(decoder, error)


def _stays_refused(decoder: Decoder, error: MQTTError) -> None:
    assert error.reason_code >= 0x80, "an error needs the reason code of one"
    assert error.message, "the log is told nothing"
    assert decoder.buffered == 0, "something is kept after an error"
    decoder.feed(b"\xc0\0")
    try:
        decoder.next_packet()
    except MQTTError as again:
        if again is error:
            return
    raise AssertionError("the error is forgotten")


def _survives(packet: Packet, version: int) -> None:
    encoded = packet.encode(version)
    again = _decoded_later(encoded, version)
    assert content(again) == content(packet), "the way back changes it"
    assert again.encode(version) == encoded, "encoding is not stable"
    if isinstance(packet, Publish) and packet.topic:
        for target in (4, 5):
            for qos in range(packet.qos + 1):
                _goes_out(packet, target, qos)
    elif isinstance(packet, Connect):
        assert packet.version == version


def _decoded_later(data: bytes, version: int) -> Packet:
    """Decode a packet behind another: what is accepted at first only, or later only, is wrong."""
    decoder = Decoder(version=version)
    decoder.feed(BEFORE + data)
    _, packet = drain(decoder)
    return packet


def _goes_out(publish: Publish, version: int, qos: int) -> None:
    """Each form in which a PUBLISH is passed on says the same, at its QoS, without what is the publisher's own."""
    packet_id = b"\x12\x34" if qos else b""
    for retain in (False, True):
        delivery = publish.at(qos, retain)
        if version == 4:
            head = delivery.frame4 or delivery.build4()
            rest = delivery.rest4
        else:
            head = delivery.frame5 or delivery.build5()
            rest = delivery.rest5
        expected = _expected(publish, version, qos, retain, dup=False)
        assert content(decode_one(head + packet_id + (rest or b"") if qos else head, version)) == expected
        if version == 5:
            before, block, payload = delivery.delivery(publish.topic, b"", -1)
            assert content(decode_one(before + packet_id + block + payload, version)) == expected
        if qos:
            resent = decode_one(delivery.encode_resent(version, 0x1234, -1), version)
            assert content(resent) == _expected(publish, version, qos, retain, dup=True)


def _expected(publish: Publish, version: int, qos: int, retain: bool, *, dup: bool) -> Content:
    own = (props.TOPIC_ALIAS, props.SUBSCRIPTION_IDENTIFIER)
    kept: Properties | None = None
    if version == 5:
        kept = {key: value for key, value in (publish.properties or {}).items() if key not in own}
    packet_id = 0x1234 if qos else 0
    return ("Publish", publish.topic, publish.payload, qos, retain, plain(kept), packet_id, dup)
