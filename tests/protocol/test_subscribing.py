"""SUBSCRIBE, UNSUBSCRIBE, DISCONNECT and AUTH: bytes of the standard and what is not encoded."""

import pytest

from protocol.auth import Auth
from protocol.disconnect import Disconnect
from protocol.subscribe import Subscribe, Subscription
from protocol.unsubscribe import Unsubscribe
from tests.support.protocol.packets import decode_one


def test_subscribe_example() -> None:
    """The payload of the standard's figure 3-23 is encoded as it says."""
    packet = Subscribe(10, [Subscription("a/b", 1), Subscription("c/d", 2)])
    assert packet.encode(4) == bytes.fromhex("820e 000a 0003612f62 01 0003632f64 02")
    assert packet.encode(5) == bytes.fromhex("820f 000a 00 0003612f62 01 0003632f64 02")


def test_subscription_options() -> None:
    """Each option has its bit [MQTT-3.8.3-5], and 3.1.1 has the QoS only."""
    subscription = Subscription("a", 2, True, True, 2)
    assert subscription.options(5) == 0b0010_1110
    assert subscription.options(4) == 2


def test_shared_subscriptions_in_3_1_1_are_plain_filters() -> None:
    """3.1.1 knows no shared subscriptions, so the codec does not judge their form there."""
    packet = decode_one(bytes.fromhex("820c 0001 0007 2473686172652f 00"), 4)
    assert isinstance(packet, Subscribe)
    assert packet.subscriptions[0].topic_filter == "$share/"


def test_nothing_to_subscribe_to() -> None:
    """SUBSCRIBE and UNSUBSCRIBE without topic filters are not encoded [MQTT-3.8.3-2] [MQTT-3.10.3-2]."""
    with pytest.raises(ValueError, match="at least one"):
        Subscribe(1, []).encode(5)
    with pytest.raises(ValueError, match="at least one"):
        Unsubscribe(1, []).encode(5)


def test_disconnect_in_its_shortest_form() -> None:
    """What may be left out is left out (section 3.14.2), and read when it is missing."""
    assert Disconnect().encode(5) == Disconnect(0x8E).encode(4) == b"\xe0\x00"
    assert Disconnect(0x8E).encode(5) == b"\xe0\x01\x8e"
    packet = decode_one(b"\xe0\x01\x04", 5)
    assert isinstance(packet, Disconnect)
    assert packet.reason_code == 4


def test_auth_in_its_shortest_form() -> None:
    """An empty AUTH is Success (section 3.15.2.1); 3.1.1 has no AUTH."""
    assert Auth().encode(5) == b"\xf0\x00"
    with pytest.raises(ValueError, match="no such packet"):
        Auth().encode(4)
