"""PUBACK, PUBREC, PUBREL and PUBCOMP: their short forms and reason codes."""

import pytest
from hypothesis import given

from protocol.acknowledgements import Puback, Pubcomp, Pubrec, Pubrel
from tests.support.protocol.packets import decode_one
from tests.support.protocol.strategies import packet_ids


@pytest.mark.parametrize(("kind", "first"), [(Puback, 0x40), (Pubrec, 0x50), (Pubrel, 0x62), (Pubcomp, 0x70)])
@given(packet_id=packet_ids)
def test_short_acknowledgements(kind: type[Puback], first: int, packet_id: int) -> None:
    """Success without properties is four bytes in both versions."""
    short = bytes((first, 2)) + packet_id.to_bytes(2, "big")
    assert kind(packet_id).encode(4) == kind(packet_id).encode(5) == short
    packet = decode_one(short, 4)
    assert isinstance(packet, kind)
    assert (packet.packet_id, packet.reason_code, packet.properties) == (packet_id, 0, None)


def test_reason_codes_of_acknowledgements() -> None:
    """In MQTT 5 an acknowledgement with a reason code has five bytes; one with a property length of 0 is read too."""
    assert Pubrec(1, 0x97).encode(5) == b"\x50\x03\x00\x01\x97"
    packet = decode_one(b"\x50\x04\x00\x01\x97\x00", 5)
    assert isinstance(packet, Pubrec)
    assert packet.reason_code == 0x97
    assert Pubrec(1, 0x97).encode(4) == b"\x50\x02\x00\x01"
