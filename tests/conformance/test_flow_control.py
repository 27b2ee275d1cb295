"""Flow control by Receive Maximum (section 4.9 of 5.0)."""

import pytest

from protocol import properties as props
from protocol import reason_codes
from protocol.acknowledgements import Puback, Pubcomp, Pubrec, Pubrel
from protocol.ping import Pingreq, Pingresp
from protocol.publish import Publish, encode_publish
from protocol.suback import Suback
from protocol.subscribe import Subscription
from protocol.unsuback import Unsuback
from tests.conformance import by_hand
from tests.conformance.delivery import subscribe, unique
from tests.support.process import Address
from tests.support.wire import WireClient, connected


def receiver(address: Address, receive_maximum: int, topic: str, qos: int) -> WireClient:
    """A client with this Receive Maximum, subscribed to the topic."""
    client = connected(address, 5, properties={props.RECEIVE_MAXIMUM: receive_maximum})
    subscribe(client, Subscription(topic, qos))
    return client


def publish(address: Address, topic: str, count: int, qos: int) -> None:
    """Publish so many messages, each with its complete exchange."""
    with connected(address, 5) as publisher:
        for number in range(count):
            publisher.publish(topic, b"%d" % number, qos)


def nothing_is_sent(client: WireClient) -> None:
    """No message comes: only the answers to some pings and an UNSUBSCRIBE, which give it time to come."""
    client.expect_nothing_more()
    client.send(by_hand.unsubscribe(5, 60_000, ["nothing"]))
    client.expect(Unsuback)
    client.expect_nothing_more()


@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("maximum", [1, 2, 7])
def test_initial_quota(address: Address, maximum: int, qos: int) -> None:
    """At least one message comes before any is acknowledged, and no more than the Receive Maximum."""
    topic = unique("quota")
    with receiver(address, maximum, topic, qos) as client:
        publish(address, topic, maximum + 3, qos)
        client.expect(Publish)
        count = 1
        client.send(Pingreq(), Pingreq())
        pongs = 0
        while pongs < 2:
            packet = client.receive()
            if isinstance(packet, Publish):
                count += 1
            else:
                assert isinstance(packet, Pingresp)
                pongs += 1
        assert 1 <= count <= maximum


@pytest.mark.parametrize("qos", [1, 2])
def test_nothing_past_the_quota(address: Address, qos: int) -> None:
    """When Receive Maximum messages are unacknowledged, no more come."""
    topic = unique("quota")
    with receiver(address, 3, topic, qos) as client:
        publish(address, topic, 10, qos)
        assert [client.expect(Publish).payload for _ in range(3)] == [b"0", b"1", b"2"]
        nothing_is_sent(client)


@pytest.mark.parametrize(
    ("step", "code"),
    [
        ("PUBACK", reason_codes.SUCCESS),
        ("PUBACK", reason_codes.UNSPECIFIED_ERROR),
        ("PUBREC", reason_codes.UNSPECIFIED_ERROR),
        ("PUBCOMP", reason_codes.SUCCESS),
        ("PUBCOMP", reason_codes.PACKET_IDENTIFIER_NOT_FOUND),
    ],
)
def test_quota_comes_back(address: Address, step: str, code: int) -> None:
    """PUBACK, PUBCOMP, and a PUBREC that refuses, each allow one more message."""
    topic = unique("quota")
    with receiver(address, 2, topic, 1 if step == "PUBACK" else 2) as client:
        publish(address, topic, 6, 2)
        waiting = [client.expect(Publish), client.expect(Publish)]
        for number in range(2, 6):
            message = waiting.pop(0)
            if step == "PUBACK":
                client.send(Puback(message.packet_id, code))
            elif step == "PUBREC":
                client.send(Pubrec(message.packet_id, code))
            else:
                client.send(Pubrec(message.packet_id))
                assert client.expect(Pubrel).packet_id == message.packet_id
                client.send(Pubcomp(message.packet_id, code))
            waiting.append(client.expect(Publish))
            assert waiting[-1].payload == b"%d" % number
            client.expect_nothing_more()


def test_pubrec_keeps_the_quota(address: Address) -> None:
    """A PUBREC of success allows no more messages: the exchange has not ended yet."""
    topic = unique("quota")
    with receiver(address, 1, topic, 2) as client:
        publish(address, topic, 2, 2)
        message = client.expect(Publish)
        client.send(Pubrec(message.packet_id))
        client.expect(Pubrel)
        nothing_is_sent(client)
        client.send(Pubcomp(message.packet_id))
        assert client.expect(Publish).payload == b"1"


def test_quota_is_new_with_each_connection(address: Address) -> None:
    """Each connection has the Receive Maximum of its own CONNECT, which applies to what is resent too."""
    topic, client_id = unique("quota"), unique("client")
    keep = {props.SESSION_EXPIRY_INTERVAL: 60}
    wide = keep | {props.RECEIVE_MAXIMUM: 4}
    with connected(address, 5, client_id=client_id, properties=wide) as client:
        subscribe(client, Subscription(topic, 1))
        publish(address, topic, 6, 1)
        assert [client.expect(Publish).payload for _ in range(4)] == [b"0", b"1", b"2", b"3"]
    narrow = keep | {props.RECEIVE_MAXIMUM: 2}
    with connected(address, 5, client_id=client_id, clean_start=False, properties=narrow) as client:
        waiting = [client.expect(Publish), client.expect(Publish)]
        nothing_is_sent(client)
        found = [message.payload for message in waiting]
        while len(found) < 6:
            client.send(Puback(waiting.pop(0).packet_id))
            waiting.append(client.expect(Publish))
            found.append(waiting[-1].payload)
        assert found == [b"%d" % number for number in range(6)]
        client.disconnect(properties={props.SESSION_EXPIRY_INTERVAL: 0})


@pytest.mark.parametrize("qos", [1, 2])
def test_other_packets_at_quota_zero(address: Address, qos: int) -> None:
    """With the quota at zero, PINGREQ, SUBSCRIBE, UNSUBSCRIBE and PUBLISH are answered as usual."""
    topic = unique("quota")
    with receiver(address, 1, topic, qos) as client:
        publish(address, topic, 3, qos)
        blocking = client.expect(Publish)
        client.send(Pingreq())
        client.expect(Pingresp)
        client.send(by_hand.subscribe(5, 10, [(unique("other"), 0)]))
        assert client.expect(Suback).packet_id == 10
        client.send(by_hand.unsubscribe(5, 11, [unique("other")]))
        assert client.expect(Unsuback).packet_id == 11
        client.send(encode_publish(unique("own").encode(), b"x", 1, False, False, 12, None, 5))
        assert client.expect(Puback).packet_id == 12
        client.send(encode_publish(unique("own").encode(), b"x", 2, False, False, 13, None, 5))
        assert client.expect(Pubrec).packet_id == 13
        client.send(Pubrel(13))
        assert client.expect(Pubcomp).packet_id == 13
        client.send((Puback if qos == 1 else Pubrec)(blocking.packet_id, reason_codes.UNSPECIFIED_ERROR))
        assert client.expect(Publish).payload == b"1"
