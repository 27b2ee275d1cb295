"""DISCONNECT: its short forms."""

from protocol.disconnect import Disconnect
from tests.support.protocol.packets import decode_one


def test_disconnect_in_its_shortest_form() -> None:
    """Optional fields are left out (section 3.14.2), and have their defaults when they are missing."""
    assert Disconnect().encode(5) == Disconnect(0x8E).encode(4) == b"\xe0\x00"
    assert Disconnect(0x8E).encode(5) == b"\xe0\x01\x8e"
    packet = decode_one(b"\xe0\x01\x04", 5)
    assert isinstance(packet, Disconnect)
    assert packet.reason_code == 4
