"""Properties: our tables and our codec compared with paho's, and malformed properties."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from paho.mqtt import packettypes
from paho.mqtt import properties as paho

from protocol import packet_types, properties
from protocol.errors import MalformedPacket, ProtocolError
from protocol.properties import Properties, decode_properties, encode_properties
from tests.support.protocol.packets import plain
from tests.support.protocol.strategies import property_sets

PACKETS = [number for number in range(1, 17) if any(properties.is_allowed(i, number) for i in range(128))]
PahoProperties: Any = paho.Properties
PahoTypes: Any = packettypes.PacketTypes


def paho_packet(packet_type: int) -> int:
    """Return paho's number of a packet type."""
    return int(PahoTypes.WILLMESSAGE) if packet_type == packet_types.WILL else packet_type


def to_paho(chosen: Properties, packet_type: int) -> Any:
    """Convert our properties to paho's object."""
    theirs = PahoProperties(paho_packet(packet_type))
    for identifier, value in chosen.items():
        for item in value if isinstance(value, list) else [value]:
            setattr(theirs, properties.name(identifier).replace(" ", ""), item)
    return theirs


@st.composite
def packet_and_properties(draw: st.DrawFn) -> tuple[int, Properties]:
    """A packet type and properties that it may have."""
    packet_type = draw(st.sampled_from(PACKETS))
    return packet_type, draw(property_sets(packet_type))


def test_ping_and_suback_tables() -> None:
    """The tables have the standard's 27 properties: none for PINGREQ and PINGRESP, some for all other packets."""
    assert sum(kind != 0 for kind in properties.TYPES) == 27
    assert [*range(1, 12), 14, 15, 16] == PACKETS


def test_names_and_numbers_are_the_standards() -> None:
    """Each constant of the module has the number that paho gives its name."""
    source = PahoProperties(PahoTypes.PUBLISH)
    for text, number in source.names.items():
        assert getattr(properties, text.upper().replace(" ", "_")) == number
        assert properties.name(number) == text
    assert properties.name(99) == "property 99"


@given(packet_and_properties())
def test_paho_reads_what_we_write(case: tuple[int, Properties]) -> None:
    """paho decodes our bytes to the same properties, and we decode paho's."""
    packet_type, chosen = case
    ours = encode_properties(chosen, packet_type)
    # paho refuses the byte order mark, which [MQTT-1.5.4-3] allows, and a Maximum Packet Size that four bytes can hold.
    large = chosen.get(properties.MAXIMUM_PACKET_SIZE, 1)
    if "\ufeff" not in repr(chosen) and isinstance(large, int) and large <= 268_435_455:
        theirs = to_paho(chosen, packet_type)
        read, length = PahoProperties(paho_packet(packet_type)).unpack(ours)
        assert length == len(ours)
        assert read.json() == theirs.json()
        packed = bytes(theirs.pack())
        decoded, position = decode_properties(packed, 0, len(packed), packet_type)
        assert position == len(packed)
        assert plain(decoded) == plain(chosen)
    decoded, position = decode_properties(b"\xff" + ours + b"\xff", 1, len(ours) + 1, packet_type)
    assert position == len(ours) + 1
    assert plain(decoded) == plain(chosen)


def test_user_properties_keep_their_order() -> None:
    """User properties keep their order and duplicates [MQTT-3.3.2-18]."""
    pairs = [("b", "1"), ("a", "2"), ("b", "1")]
    data = encode_properties({38: pairs}, packet_types.PUBLISH)
    assert decode_properties(data, 0, len(data), packet_types.PUBLISH)[0] == {38: pairs}


def test_no_properties() -> None:
    """No properties are encoded as a length of 0 and decoded as None [MQTT-2.2.2-1]."""
    assert encode_properties(None, packet_types.PUBLISH) == encode_properties({}, packet_types.PUBLISH) == b"\0"
    assert decode_properties(b"\0", 0, 1, packet_types.PUBLISH) == (None, 1)


def test_subscription_identifier_forms() -> None:
    """A subscription identifier is a list in PUBLISH and a number in SUBSCRIBE."""
    assert decode_properties(b"\x04\x0b\x01\x0b\x02", 0, 5, packet_types.PUBLISH)[0] == {11: [1, 2]}
    assert decode_properties(b"\x02\x0b\x01", 0, 3, packet_types.SUBSCRIBE)[0] == {11: 1}


@pytest.mark.parametrize("packet_type", PACKETS)
def test_every_property_that_does_not_belong(packet_type: int) -> None:
    """Each property that a packet must not have, and each unknown one, makes it malformed."""
    for identifier in range(256):
        if not properties.is_allowed(identifier, packet_type):
            with pytest.raises(MalformedPacket, match="is no property of this packet"):
                decode_properties(bytes((5, identifier, 0, 0, 0, 1)), 0, 6, packet_type)
            with pytest.raises(ValueError, match="is no property of this packet"):
                encode_properties({identifier: 1}, packet_type)


@pytest.mark.parametrize("packet_type", PACKETS)
@given(data=st.data())
def test_every_property_twice(packet_type: int, data: st.DataObject) -> None:
    """Each property that may occur only once is a protocol error if it occurs twice."""
    chosen = data.draw(property_sets(packet_type))
    for identifier, value in chosen.items():
        block = encode_properties({identifier: value}, packet_type)
        if len(block) > 60:
            continue
        twice = bytes((2 * block[0],)) + block[1:] * 2
        if isinstance(value, list):
            decoded, _ = decode_properties(twice, 0, len(twice), packet_type)
            assert decoded == {identifier: value * 2}
        else:
            with pytest.raises(ProtocolError, match="twice"):
                decode_properties(twice, 0, len(twice), packet_type)


def test_wrong_python_types_are_not_encoded() -> None:
    """A value of the wrong type is a ValueError that names the property."""
    wrong: list[Properties] = [{2: "soon"}, {3: 5}, {9: "text"}, {8: b"topic"}]
    for chosen in wrong:
        with pytest.raises(ValueError, match="is not the type of this property"):
            encode_properties(chosen, packet_types.PUBLISH)
