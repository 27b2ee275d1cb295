"""UNSUBACK: its codes, which MQTT 5 has only."""

import pytest

from protocol.errors import MQTTError
from protocol.unsuback import Unsuback, decode_unsuback


def test_unsuback_codes() -> None:
    """UNSUBACK has reason codes in MQTT 5 only, and there at least one."""
    assert Unsuback(1, [0x11]).encode(4) == b"\xb0\x02\x00\x01"
    assert Unsuback(1, [0x11]).encode(5) == b"\xb0\x04\x00\x01\x00\x11"
    for data, version in ((b"\0\x01\0", 4), (b"\0\x01\0", 5), (b"\0\x01\0\x01", 5)):
        with pytest.raises(MQTTError, match="UNSUBACK"):
            decode_unsuback(data, 0, len(data), version)
