"""The strict client notices packets that a broker must not send."""

import pytest

from protocol.acknowledgements import Puback, Pubcomp, Pubrec
from protocol.connack import Connack
from protocol.connect import Connect
from protocol.disconnect import Disconnect
from protocol.errors import PacketTooLarge
from protocol.packet import Packet
from protocol.ping import PINGRESP_BYTES, Pingreq
from protocol.publish import Publish
from protocol.suback import Suback
from protocol.subscribe import Subscribe, Subscription
from tests.fuzz.observer import Observer

CLIENT = Connect("x", properties={33: 1, 34: 1, 39: 60})
"""Takes one delivery at a time, one topic alias, and packets of 60 bytes."""


def connected(version: int = 5) -> Observer:
    """Return the observer of a client that has been let in."""
    observer = Observer(1000)
    observer.says((CLIENT if version == 5 else Connect("x", version=4)).encode(version))
    observer.hears(Connack().encode(version))
    return observer


def test_an_honest_exchange_is_right() -> None:
    """Requested answers, deliveries in sequence, and a reason at the end are accepted."""
    observer = connected()
    for said in (Subscribe(1, [Subscription("a", 2)]), Publish(b"a", b"", 1, packet_id=1), Pingreq()):
        observer.says(said.encode(5))
    for heard in (Suback(1, [2]), Publish(b"a", b"", 2, packet_id=1, properties={35: 1}), Puback(1)):
        observer.hears(heard.encode(5))
    observer.hears(PINGRESP_BYTES)
    observer.says(Pubrec(1).encode(5) + Pubcomp(1).encode(5))
    observer.hears(Publish(b"", b"", 1, packet_id=1, properties={35: 1}).encode(5))
    observer.hears(Disconnect(0x8E).encode(5))
    observer.closed(waited=False)
    assert [publish.topic for publish in observer.publishes] == [b"a", b"a"]


@pytest.mark.parametrize(
    "packets",
    [
        pytest.param([Connack()], id="second CONNACK"),
        pytest.param([Puback(1)], id="unasked PUBACK"),
        pytest.param([Suback(1, [0])], id="unasked SUBACK"),
        pytest.param([Pingreq()], id="a client's packet"),
        pytest.param([Disconnect(0)], id="DISCONNECT without a reason"),
        pytest.param([Disconnect(0x8E), Publish(b"a", b"")], id="more after DISCONNECT"),
        pytest.param([Publish(b"a", b"", properties={35: 2})], id="topic alias too high"),
        pytest.param([Publish(b"a", b"", 1, packet_id=1)] * 2, id="packet id in use"),
        pytest.param([Publish(b"a", b"", 1, packet_id=number) for number in (1, 2)], id="past Receive Maximum"),
    ],
)
def test_a_wrong_packet_is_noticed(packets: list[Packet]) -> None:
    """A packet that breaks a rule for servers is noticed."""
    observer = connected()
    with pytest.raises(AssertionError):
        observer.hears(b"".join(packet.encode(5) for packet in packets))


def test_a_packet_that_is_too_large_is_noticed() -> None:
    """A packet after CONNACK above the client's Maximum Packet Size is noticed."""
    with pytest.raises(PacketTooLarge):
        connected().hears(Publish(b"a", bytes(60)).encode(5))


def test_suback_has_a_code_for_each_filter() -> None:
    """A SUBACK without a code for each filter is noticed."""
    observer = connected()
    observer.says(Subscribe(1, [Subscription("a"), Subscription("b")]).encode(5))
    with pytest.raises(AssertionError):
        observer.hears(Suback(1, [0]).encode(5))


def test_closing_without_a_reason_is_noticed() -> None:
    """Closing an MQTT 5 connection without a reason is noticed, unless the client sent DISCONNECT."""
    with pytest.raises(AssertionError):
        connected().closed(waited=False)
    connected(4).closed(waited=False)
    left = connected()
    left.says(Disconnect().encode(5))
    left.closed(waited=False)
