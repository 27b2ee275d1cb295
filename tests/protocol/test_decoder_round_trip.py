"""Every packet type in both directions and versions: decoding gives what was encoded."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.connect import Connect
from protocol.decoder import Decoder
from protocol.packet import Packet
from protocol.publish import Publish
from tests.support.protocol import strategies
from tests.support.protocol.packets import content, decode_one

VERSIONS = st.sampled_from([4, 5])


@st.composite
def versions_and_packets(draw: st.DrawFn) -> tuple[int, Packet]:
    """A version and any packet of it, CONNECT too."""
    version = draw(VERSIONS)
    return version, draw(st.one_of(strategies.packets(version), strategies.connects(version)))


@given(versions_and_packets())
def test_decoding_gives_what_was_encoded(case: tuple[int, Packet]) -> None:
    """Decoding an encoded packet gives an equal packet."""
    version, packet = case
    assert content(decode_one(packet.encode(version), version)) == content(packet)


@given(versions_and_packets())
def test_encoding_is_stable(case: tuple[int, Packet]) -> None:
    """Encoding what was decoded gives the same bytes."""
    version, packet = case
    data = packet.encode(version)
    assert decode_one(data, version).encode(version) == data


@given(versions_and_packets())
def test_every_truncation_needs_more(case: tuple[int, Packet]) -> None:
    """An incomplete packet is neither a packet nor an error."""
    version, packet = case
    data = packet.encode(version)
    for length in range(len(data)):
        decoder = Decoder(version=version)
        decoder.feed(data[:length])
        assert decoder.next_packet() is None
        assert decoder.buffered == length


@pytest.mark.parametrize("version", [4, 5])
def test_connect_tells_the_decoder_its_version(version: int) -> None:
    """A decoder without a version gets it from CONNECT, and decodes the next packets by it."""
    connect = Connect("me", version=version)
    publish = Publish(b"a", b"\x00payload", 1, packet_id=7)
    decoder = Decoder()
    decoder.feed(connect.encode(version) + publish.encode(version))
    assert content(decoder.next_packet() or publish) == content(connect)
    assert decoder.version == version
    assert content(decoder.next_packet() or connect) == content(publish)
