"""CONNACK, SUBACK, UNSUBACK and the acknowledgements: what each version says with them."""

import pytest
from hypothesis import given

from protocol import packet_types, reason_codes
from protocol.acknowledgements import Puback, Pubcomp, Pubrec, Pubrel
from protocol.connack import Connack, decode_connack, return_code
from protocol.errors import MQTTError
from protocol.suback import Suback, decode_suback
from protocol.unsuback import Unsuback, decode_unsuback
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
    """In MQTT 5 a reason code makes five bytes; with length byte 0 behind it, it is read as well."""
    assert Pubrec(1, 0x97).encode(5) == b"\x50\x03\x00\x01\x97"
    packet = decode_one(b"\x50\x04\x00\x01\x97\x00", 5)
    assert isinstance(packet, Pubrec)
    assert packet.reason_code == 0x97
    assert Pubrec(1, 0x97).encode(4) == b"\x50\x02\x00\x01"


@pytest.mark.parametrize(
    ("reason", "code"), [(0, 0), (1, 1), (5, 5), (0x84, 1), (0x85, 2), (0x88, 3), (0x86, 4), (0x87, 5), (0x8A, 5)]
)
def test_return_codes(reason: int, code: int) -> None:
    """A CONNACK for 3.1.1 says with a return code what the reason code means."""
    assert return_code(reason) == code
    assert Connack(False, reason).encode(4) == bytes((0x20, 2, 0, code))


def test_no_return_code() -> None:
    """Where 3.1.1 has no return code there is no CONNACK: the server just closes (3.1.1: [MQTT-3.2.2-6])."""
    assert return_code(reason_codes.PACKET_TOO_LARGE) == -1
    with pytest.raises(ValueError, match="0x95"):
        Connack(False, reason_codes.PACKET_TOO_LARGE).encode(4)


def test_session_present_goes_with_success_only() -> None:
    """Session Present with a refusal is neither encoded nor accepted [MQTT-3.2.2-6]."""
    with pytest.raises(ValueError, match="Session Present"):
        Connack(True, 0x87).encode(5)
    for data, version in ((b"\x01\x87\x00", 5), (b"\x01\x05", 4)):
        with pytest.raises(MQTTError, match="Session Present"):
            decode_connack(data, 0, len(data), version)


@pytest.mark.parametrize(
    ("data", "version"),
    [("02 00", 4), ("00 06", 4), ("00 00 00", 4), ("00", 4), ("00 01 00", 5), ("00 00", 5), ("00 00 03 160001", 5)],
)
def test_malformed_connack(data: str, version: int) -> None:
    """A client refuses reserved flags, unknown codes, missing and surplus bytes [MQTT-3.2.2-1]."""
    raw = bytes.fromhex(data)
    with pytest.raises(MQTTError, match=r"CONNACK|reason code|property length"):
        decode_connack(raw, 0, len(raw), version)


def test_suback_codes() -> None:
    """3.1.1 knows one failure, 0x80, whatever the reason; other codes are refused [MQTT-3.9.3-2]."""
    assert Suback(1, [2, 0x8F, 0x80]).encode(4) == b"\x90\x05\x00\x01\x02\x80\x80"
    assert Suback(1, [2, 0x8F]).encode(5) == b"\x90\x05\x00\x01\x00\x02\x8f"
    for data, version in (
        (b"\0\x01\x03", 4),
        (b"\0\x01\x8f", 4),
        (b"\0\x01\0\x03", 5),
        (b"\0\x01", 4),
        (b"\0\x01\0", 5),
    ):
        with pytest.raises(MQTTError, match="SUBACK"):
            decode_suback(data, 0, len(data), version)


def test_unsuback_codes() -> None:
    """UNSUBACK has reason codes in MQTT 5 only, and there at least one."""
    assert Unsuback(1, [0x11]).encode(4) == b"\xb0\x02\x00\x01"
    assert Unsuback(1, [0x11]).encode(5) == b"\xb0\x04\x00\x01\x00\x11"
    for data, version in ((b"\0\x01\0", 4), (b"\0\x01\0", 5), (b"\0\x01\0\x01", 5)):
        with pytest.raises(MQTTError, match="UNSUBACK"):
            decode_unsuback(data, 0, len(data), version)


def test_names_in_messages() -> None:
    """Every packet type has its name in messages."""
    assert packet_types.NAMES[packet_types.PUBCOMP] == "PUBCOMP"
