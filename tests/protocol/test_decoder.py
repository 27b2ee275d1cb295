"""The decoder: independent of how the stream is split; limits apply before buffering; what it keeps and refuses."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.decoder import Decoder
from protocol.errors import MalformedPacket, MQTTError, PacketTooLarge, ProtocolError
from protocol.packet import Packet
from protocol.ping import Pingreq
from protocol.publish import Publish
from tests.support.protocol import strategies
from tests.support.protocol.malformed import MALFORMED, SECOND_CONNECT
from tests.support.protocol.packets import content, decode_pieces, drain

PINGREQ = b"\xc0\x00"


@st.composite
def streams(draw: st.DrawFn) -> tuple[int, list[Packet], bytes]:
    """A version, some packets, and their bytes."""
    version = draw(st.sampled_from([4, 5]))
    packets = draw(st.lists(strategies.packets(version), max_size=5))
    return version, packets, b"".join(packet.encode(version) for packet in packets)


def split(data: bytes, cuts: list[int]) -> list[bytes]:
    """Cut the bytes at these positions."""
    places = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[start:stop] for start, stop in pairwise(places)]


@given(streams(), st.lists(st.integers(0, 100_000), max_size=8))
def test_any_split_gives_the_same_packets(stream: tuple[int, list[Packet], bytes], cuts: list[int]) -> None:
    """The same packets are decoded however the stream is split, also into empty pieces."""
    version, packets, data = stream
    assert decode_pieces(split(data, cuts), version) == ([content(packet) for packet in packets], None)


@given(streams())
def test_byte_by_byte_gives_the_same_packets(stream: tuple[int, list[Packet], bytes]) -> None:
    """A stream that arrives byte by byte gives the same packets."""
    version, packets, data = stream
    pieces = [data[index : index + 1] for index in range(len(data))]
    assert decode_pieces(pieces, version) == ([content(packet) for packet in packets], None)


@given(streams(), st.lists(st.integers(0, 100_000), max_size=5), st.integers(0, 100_000))
def test_feeding_before_draining(stream: tuple[int, list[Packet], bytes], cuts: list[int], early: int) -> None:
    """Several chunks may be fed before packets are read, also after an incomplete packet."""
    version, packets, data = stream
    decoder = Decoder(version=version)
    found = []
    for piece in split(data[: early % (len(data) + 1)], cuts):
        decoder.feed(piece)
    found += drain(decoder)
    for piece in split(data[early % (len(data) + 1) :], cuts):
        decoder.feed(piece)
    if (packet := decoder.next_packet()) is not None:
        found.append(packet)
    decoder.feed(b"")
    decoder.feed(PINGREQ)
    found += drain(decoder)
    assert [content(packet) for packet in found] == [content(packet) for packet in [*packets, Pingreq()]]


@given(streams(), st.sampled_from(MALFORMED), st.lists(st.integers(0, 100_000), max_size=5))
def test_errors_do_not_depend_on_the_split(
    stream: tuple[int, list[Packet], bytes], case: tuple[str, int, str, int], cuts: list[int]
) -> None:
    """Packets before a malformed one are decoded, and the reason code is the same for every split."""
    version, packets, data = stream
    name, case_version, wrong, reason_code = case
    if case_version != version or name.startswith("CONNECT"):
        return
    pieces = split(data + bytes.fromhex(wrong) + PINGREQ, cuts)
    assert decode_pieces(pieces, version) == ([content(packet) for packet in packets], reason_code)


def test_trailing_bytes_wait_for_the_rest() -> None:
    """Bytes after the last complete packet are kept, and nothing else is."""
    decoder = Decoder(version=4)
    decoder.feed(PINGREQ + b"\x30\x05\x00")
    assert isinstance(decoder.next_packet(), Pingreq)
    assert decoder.next_packet() is None
    assert decoder.buffered == 3
    decoder.feed(b"\x01ab")
    assert decoder.next_packet() is None
    decoder.feed(b"c")
    packet = decoder.next_packet()
    assert isinstance(packet, Publish)
    assert (packet.topic, packet.payload) == (b"a", b"bc")
    assert decoder.next_packet() is None
    assert decoder.buffered == 0


def test_a_chunk_that_is_one_packet_is_not_copied() -> None:
    """A QoS 0 PUBLISH that fills its chunk is passed on as that chunk itself."""
    chunk = Publish(b"a/b", bytes(16_384)).encode(4)
    decoder = Decoder(version=4)
    decoder.feed(chunk)
    packet = decoder.next_packet()
    assert isinstance(packet, Publish)
    assert packet.frame4 is chunk


def test_large_packet_in_small_pieces() -> None:
    """A packet that arrives in thousands of pieces is joined once, and needs no more memory than its bytes."""
    data = Publish(b"a", bytes(range(256)) * 400, 1, packet_id=1).encode(5)
    decoder = Decoder(version=5)
    for start in range(0, len(data) - 7, 7):
        decoder.feed(data[start : start + 7])
        assert decoder.next_packet() is None
        assert decoder.buffered == start + 7
    decoder.feed(data[start + 7 :] + PINGREQ)
    first, second = drain(decoder)
    assert isinstance(first, Publish)
    assert first.payload == bytes(range(256)) * 400
    assert isinstance(second, Pingreq)


@pytest.mark.parametrize("size", [10, 127, 128, 5000, 20_000, 3_000_000])
def test_maximum_packet_size_is_exact(size: int) -> None:
    """A packet of exactly the maximum size is accepted; one more byte is refused before its body has arrived."""
    body = size - 2 if size < 130 else size - 3 if size < 16_387 else size - 4 if size < 2_000_000 else size - 5
    data = Publish(b"a", bytes(body - 3)).encode(4)
    assert len(data) == size
    decoder = Decoder(size, version=4)
    decoder.feed(data)
    assert isinstance(decoder.next_packet(), Publish)
    decoder = Decoder(size - 1, version=4)
    decoder.feed(data[:5])
    with pytest.raises(PacketTooLarge, match=f"{size} bytes, but at most {size - 1}"):
        decoder.next_packet()
    assert decoder.buffered == 0


def test_size_is_checked_before_anything_is_kept() -> None:
    """A header that announces 256 MiB is refused at once, before any body has arrived."""
    decoder = Decoder(1024, version=5)
    decoder.feed(b"\x30\xff\xff\xff\x7f")
    with pytest.raises(PacketTooLarge) as caught:
        decoder.next_packet()
    assert caught.value.reason_code == 0x95
    assert decoder.buffered == 0


def test_remaining_length_with_a_fifth_byte() -> None:
    """A Remaining Length of five bytes is malformed."""
    decoder = Decoder(version=4)
    decoder.feed(b"\x30\xff\xff\xff")
    assert decoder.next_packet() is None
    decoder.feed(b"\xff")
    with pytest.raises(MalformedPacket, match="at most four bytes"):
        decoder.next_packet()


@pytest.mark.parametrize("padding", [1, 2])
@pytest.mark.parametrize("qos", [0, 1])
def test_padded_remaining_length_in_3_1_1(padding: int, qos: int) -> None:
    """3.1.1 allows a Remaining Length with unnecessary bytes: it is read, and never sent."""
    plain = Publish(b"a", b"payload", qos, packet_id=qos).encode(4)
    padded = plain[:1] + bytes((plain[1] | 0x80,)) + b"\x80" * (padding - 1) + b"\0" + plain[2:]
    decoder = Decoder(version=4)
    decoder.feed(b"\xc0\x80\x00" + padded + padded + PINGREQ)
    found = drain(decoder)
    assert [type(packet) for packet in found] == [Pingreq, Publish, Publish, Pingreq]
    assert isinstance(found[1], Publish)
    assert found[1].frame4 == (plain if qos == 0 else plain[:5])


def test_the_first_packet_must_be_connect() -> None:
    """[MQTT-3.1.0-1] Another packet than CONNECT is refused by its first bytes."""
    decoder = Decoder()
    decoder.feed(b"\x30\x7f")
    with pytest.raises(ProtocolError, match="first packet must be CONNECT"):
        decoder.next_packet()


@pytest.mark.parametrize("case", SECOND_CONNECT, ids=lambda case: case.name)
def test_connect_comes_once(case: tuple[str, int, str, int]) -> None:
    """[MQTT-3.1.0-2] A second CONNECT is a protocol error."""
    data = bytes.fromhex(case[2])
    decoder = Decoder()
    decoder.feed(data + data)
    assert decoder.next_packet() is not None
    with pytest.raises(ProtocolError, match="second time"):
        decoder.next_packet()


@pytest.mark.parametrize("data", [b"\xf0\xff\xff\x7f", b"\x00\xff\xff\x7f", b"\x13\xff\xff\x7f", b"\x30\xff\xff\x7f"])
def test_noise_is_not_a_large_packet(data: bytes) -> None:
    """Bytes that cannot be a CONNECT are reported as such, and not as a CONNECT that exceeds a limit."""
    decoder = Decoder(100)
    decoder.feed(data)
    with pytest.raises(MQTTError, match=r"fixed header|must be CONNECT"):
        decoder.next_packet()


def test_http_is_refused_at_once() -> None:
    """An HTTP request is refused by its first bytes."""
    decoder = Decoder()
    decoder.feed(b"GET / HTTP/1.1\r\n")
    with pytest.raises(MalformedPacket):
        decoder.next_packet()


def test_an_error_is_final() -> None:
    """After an error nothing more is read or kept, and the same error is raised again."""
    decoder = Decoder(version=4)
    decoder.feed(PINGREQ + b"\xc1\x00" + PINGREQ)
    assert isinstance(decoder.next_packet(), Pingreq)
    with pytest.raises(MQTTError) as first:
        decoder.next_packet()
    decoder.feed(PINGREQ)
    with pytest.raises(MQTTError) as second:
        decoder.next_packet()
    assert first.value is second.value
    assert decoder.buffered == 0


def test_known_topics_are_not_validated() -> None:
    """A topic that the router knows is not checked again; the same topic is checked if it is unknown."""
    data = Publish(b"\xff", b"").encode(4)
    decoder = Decoder(known_topics={b"\xff": None}, version=4)
    decoder.feed(data)
    assert isinstance(decoder.next_packet(), Publish)
    decoder = Decoder(version=4)
    decoder.feed(data)
    with pytest.raises(MalformedPacket):
        decoder.next_packet()


@pytest.mark.parametrize("version", [4, 5])
def test_the_first_topic_is_validated(version: int) -> None:
    """Before the first PUBLISH no topic is known: its topic is checked."""
    for number in range(256):
        decoder = Decoder(version=version)
        decoder.feed(Publish(bytes((number,)), b"").encode(version))
        if number in (0, ord("+"), ord("#")) or number >= 0x80:
            with pytest.raises(MQTTError):
                decoder.next_packet()
        else:
            assert isinstance(decoder.next_packet(), Publish)


def test_repeated_topics_are_one_object() -> None:
    """Consecutive PUBLISHes to one topic share its bytes; another topic in between is checked."""
    decoder = Decoder(version=4)
    decoder.feed(Publish(b"a/b", b"1").encode(4) + Publish(b"a/b", b"2").encode(4))
    first, second = drain(decoder)
    assert isinstance(first, Publish)
    assert isinstance(second, Publish)
    assert first.topic is second.topic
    decoder.feed(b"\x30\x03\x00\x01#")
    with pytest.raises(MQTTError):
        decoder.next_packet()


def test_an_alias_does_not_make_empty_topics_known() -> None:
    """After a PUBLISH with an alias and no topic, one with neither is refused."""
    decoder = Decoder(version=5)
    decoder.feed(Publish(b"", b"", properties={35: 1}).encode(5) + b"\x30\x03\x00\x00\x00")
    assert isinstance(decoder.next_packet(), Publish)
    with pytest.raises(ProtocolError):
        decoder.next_packet()


def test_an_idle_decoder_owns_nothing() -> None:
    """When all is read, the decoder keeps no chunk, piece or long topic."""
    decoder = Decoder(version=4)
    decoder.feed(Publish(b"t" * 60_000, bytes(100_000)).encode(4))
    assert len(drain(decoder)) == 1
    assert decoder.buffered == 0
    assert decoder._chunk == b""
    assert decoder._pieces is None
    assert len(decoder._last_topic) < 300
