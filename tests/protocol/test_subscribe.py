"""SUBSCRIBE: bytes of the standard, and values that are not encoded."""

import pytest

from protocol.subscribe import Subscribe, Subscription
from tests.support.protocol.packets import decode_one


def test_subscribe_example() -> None:
    """The payload of the standard's figure 3-23 is encoded as shown there."""
    packet = Subscribe(10, [Subscription("a/b", 1), Subscription("c/d", 2)])
    assert packet.encode(4) == bytes.fromhex("820e 000a 0003612f62 01 0003632f64 02")
    assert packet.encode(5) == bytes.fromhex("820f 000a 00 0003612f62 01 0003632f64 02")


def test_subscription_options() -> None:
    """Each option has its bits [MQTT-3.8.3-5]; 3.1.1 has only the QoS."""
    subscription = Subscription("a", 2, True, True, 2)
    assert subscription.options(5) == 0b0010_1110
    assert subscription.options(4) == 2


def test_shared_subscriptions_in_3_1_1_are_plain_filters() -> None:
    """3.1.1 has no shared subscriptions, so the codec does not check their form there."""
    packet = decode_one(bytes.fromhex("820c 0001 0007 2473686172652f 00"), 4)
    assert isinstance(packet, Subscribe)
    assert packet.subscriptions[0].topic_filter == "$share/"


def test_nothing_to_subscribe_to() -> None:
    """SUBSCRIBE without topic filters is not encoded [MQTT-3.8.3-2]."""
    with pytest.raises(ValueError, match="at least one"):
        Subscribe(1, []).encode(5)
