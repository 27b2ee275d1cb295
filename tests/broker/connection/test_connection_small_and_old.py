"""Small Maximum Packet Sizes, No Local for wills, and timers of retained messages."""

import pytest

from protocol import properties as props
from protocol import reason_codes
from protocol.connack import Connack
from protocol.connect import Connect, Will
from protocol.disconnect import Disconnect
from protocol.properties import Properties
from protocol.publish import Publish
from protocol.suback import Suback
from protocol.subscribe import Subscribe, Subscription
from protocol.unsuback import Unsuback
from protocol.unsubscribe import Unsubscribe
from tests.support.broker.local import LocalBroker, LocalClient

FILTERS = [f"filter/{number}" for number in range(50)]


def small_client(local: LocalBroker, size: int) -> LocalClient:
    """A client whose Maximum Packet Size is `size`, connected unless it is refused."""
    client = local.client()
    client.send(Connect("small", properties={props.MAXIMUM_PACKET_SIZE: size}, version=5))
    return client


def test_too_small_for_connack() -> None:
    """A client whose Maximum Packet Size is below the CONNACK is refused, and has no session [MQTT-3.1.2-24]."""
    with LocalBroker() as local:
        client = small_client(local, 10)
        assert client.expect(Connack).reason_code == reason_codes.PACKET_TOO_LARGE
        assert client.gone
        assert not local.broker.clients


def test_large_enough_for_connack() -> None:
    """A CONNACK of exactly the Maximum Packet Size is sent."""
    with LocalBroker() as local:
        client = small_client(local, 100)
        length = sum(map(len, client.transport.written))
        client.drop()
        assert small_client(local, length).expect(Connack).reason_code == 0


@pytest.mark.parametrize("packet", [Subscribe(1, [Subscription(name) for name in FILTERS]), Unsubscribe(1, FILTERS)])
def test_too_small_for_the_answer(packet: Subscribe | Unsubscribe) -> None:
    """An answer beyond the client's Maximum Packet Size is not sent: the connection ends with 0x95 [MQTT-3.1.2-24]."""
    with LocalBroker() as local:
        client = small_client(local, 40)
        client.expect(Connack)
        client.send(packet)
        assert client.expect(Disconnect).reason_code == reason_codes.PACKET_TOO_LARGE
        roomy = small_client(local, 60)
        roomy.expect(Connack)
        roomy.send(packet)
        assert [type(answer) for answer in roomy.received()] in ([Suback], [Unsuback])


@pytest.mark.parametrize("delay", [0, 50])
def test_own_will(delay: int) -> None:
    """No Local applies to a client's own will; other subscribers get it [MQTT-3.8.3-3]."""
    kept: Properties = {props.SESSION_EXPIRY_INTERVAL: 100}
    with LocalBroker() as local:
        client, other = local.client(), local.client()
        other.connect("other")
        other.subscribe("will")
        will = Will(b"will", b"gone", 0, False, {props.WILL_DELAY_INTERVAL: delay})
        client.connect("client", will=will, properties=dict(kept))
        client.send(Subscribe(1, [Subscription("will", no_local=True)]))
        client.expect(Suback)
        client.drop()
        local.pass_time(delay + 1)
        assert other.expect(Publish).payload == b"gone"
        assert local.client().connect("client", clean_start=False, properties=dict(kept)).session_present


def retain(client: LocalClient, payload: bytes, expiry: int | None = None) -> None:
    """Publish a retained message to `t`."""
    client.send(Publish(b"t", payload, 0, True, {props.MESSAGE_EXPIRY_INTERVAL: expiry} if expiry else None))


def test_expired_retained_messages_go() -> None:
    """An expired retained message is removed from memory, even if no client asks for it [MQTT5 3.3.2.3.3]."""
    with LocalBroker() as local:
        client = local.client()
        client.connect("client")
        retain(client, b"x", 20)
        local.pass_time(19)
        assert len(local.broker.retained) == 1
        local.pass_time(2)
        assert len(local.broker.retained) == 0


def test_the_newest_retained_message_counts() -> None:
    """The latest retained message of a topic decides when it expires; replacing it leaves no timers behind."""
    with LocalBroker() as local:
        client = local.client()
        client.connect("client")
        waiting = len(local.broker.wheel)
        for _ in range(100):
            retain(client, b"x", 20)
        assert len(local.broker.wheel) == waiting + 1
        retain(client, b"y", 60)
        local.pass_time(50)
        assert len(local.broker.retained) == 1
        local.pass_time(11)
        assert len(local.broker.retained) == 0
        retain(client, b"x", 20)
        retain(client, b"for ever")
        local.pass_time(1000)
        assert len(local.broker.retained) == 1


def test_cleared_retained_messages_leave_no_timer() -> None:
    """The timer of a retained message that is cleared before it expires is removed soon."""
    with LocalBroker() as local:
        client = local.client()
        client.connect("client")
        local.pass_time(100)
        waiting = len(local.broker.wheel)
        for _ in range(50):
            retain(client, b"x", 1_000_000)
            retain(client, b"")
        local.pass_time(11)
        assert len(local.broker.wheel) == waiting
        retain(client, b"x", 20)
        local.pass_time(21)
        assert len(local.broker.retained) == 0
