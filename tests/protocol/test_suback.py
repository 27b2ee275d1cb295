"""SUBACK: its codes in each version."""

import pytest

from protocol.errors import MQTTError
from protocol.suback import Suback, decode_suback


def test_suback_codes() -> None:
    """3.1.1 has one code for a failure, 0x80, for every reason; other codes are refused [MQTT-3.9.3-2]."""
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
