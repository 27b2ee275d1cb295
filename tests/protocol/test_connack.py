"""CONNACK: return codes of 3.1.1, and malformed packets."""

import pytest

from protocol import reason_codes
from protocol.connack import Connack, decode_connack, return_code
from protocol.errors import MQTTError


@pytest.mark.parametrize(
    ("reason", "code"), [(0, 0), (1, 1), (5, 5), (0x84, 1), (0x85, 2), (0x88, 3), (0x86, 4), (0x87, 5), (0x8A, 5)]
)
def test_return_codes(reason: int, code: int) -> None:
    """A CONNACK of 3.1.1 has the return code for the reason code."""
    assert return_code(reason) == code
    assert Connack(False, reason).encode(4) == bytes((0x20, 2, 0, code))


def test_no_return_code() -> None:
    """A reason for which 3.1.1 has no return code closes without CONNACK (3.1.1: [MQTT-3.2.2-6])."""
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
