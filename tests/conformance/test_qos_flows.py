"""The exchanges of QoS 0, 1 and 2, with the server as sender and as receiver (section 4.3)."""

import pytest

from protocol import properties as props
from protocol.acknowledgements import Puback, Pubcomp, Pubrec, Pubrel
from protocol.properties import Properties
from protocol.publish import Publish
from protocol.subscribe import Subscription
from tests.conformance import by_hand
from tests.conformance.configured import Configured
from tests.conformance.delivery import messages, payloads, subscribe, unique
from tests.conformance.sessions import PAST, KeptSession, let_pass, take
from tests.support.process import Address
from tests.support.wire import WireClient, connected

MANY = 10
"""Messages that every server may send without an acknowledgement."""


def publish(topic: str, qos: int, packet_id: int, payload: bytes = b"payload", *, dup: bool = False) -> Publish:
    """Return a PUBLISH."""
    return Publish(topic.encode(), payload, qos, packet_id=packet_id, dup=dup)


# -- the server sends


@pytest.mark.parametrize("published", [0, 1, 2])
def test_qos_0_is_sent(address: Address, version: int, published: int) -> None:
    """A delivery at QoS 0 has QoS 0, DUP 0 and no packet identifier, and comes once."""
    topic = unique("flow")
    with connected(address, version) as client, connected(address, version) as publisher:
        client.send(by_hand.subscribe(version, 1, [(topic, 0)]))
        assert by_hand.receive(client)[0] == by_hand.SUBACK
        publisher.publish(topic, b"payload", published)
        properties = b"\0" if version == 5 else b""
        assert by_hand.receive(client) == (0x30, by_hand.string(topic) + properties + b"payload")
        client.expect_nothing_more()


@pytest.mark.parametrize("qos", [1, 2])
def test_first_sending(address: Address, version: int, qos: int) -> None:
    """A delivery has its QoS, DUP 0 and a packet identifier that is not 0."""
    topic = unique("flow")
    with connected(address, version) as client, connected(address, version) as publisher:
        subscribe(client, Subscription(topic, qos))
        publisher.publish(topic, b"payload", qos)
        (message,) = take(client, 1)
        assert (message.qos, message.dup, message.payload) == (qos, False, b"payload")
        assert message.packet_id
        client.finish(message)
        client.expect_nothing_more()


@pytest.mark.parametrize("qos", [1, 2])
def test_packet_identifiers_are_unused(address: Address, version: int, qos: int) -> None:
    """Deliveries that are not yet acknowledged have different packet identifiers."""
    topic = unique("flow")
    with connected(address, version) as client, connected(address, version) as publisher:
        subscribe(client, Subscription(topic, qos))
        open_ones: dict[int, Publish] = {}
        for number in range(100):
            publisher.publish(topic, b"%d" % number, qos)
            (message,) = take(client, 1)
            assert message.payload == b"%d" % number
            assert message.packet_id not in open_ones, "still in use"
            open_ones[message.packet_id] = message
            if len(open_ones) == MANY:  # the oldest one is never acknowledged, the later ones are
                client.finish(open_ones.pop(list(open_ones)[1 + number % (MANY - 1)]))


def test_packet_identifiers_of_both_qos(address: Address, version: int) -> None:
    """QoS 1 and 2 share the packet identifiers; PUBCOMP frees one as PUBACK does."""
    topic = unique("flow")
    with connected(address, version) as client, connected(address, version) as publisher:
        subscribe(client, Subscription(topic, 2))
        for number in range(MANY):
            publisher.publish(topic, b"", 1 + number % 2)
        first = take(client, MANY // 2)
        for message in first:
            if message.qos == 2:
                client.send(Pubrec(message.packet_id))
        seen = [message.packet_id for message in first]
        released = 0
        while len(seen) < MANY or released < len([message for message in first if message.qos == 2]):
            packet = client.receive()
            if isinstance(packet, Pubrel):
                released += 1
            else:
                assert isinstance(packet, Publish)
                seen.append(packet.packet_id)
        assert len(set(seen)) == MANY


@pytest.mark.parametrize(("version", "code"), [(4, 0x00), (5, 0x00), (5, 0x10)], ids=["3.1.1", "5.0", "5.0 0x10"])
def test_pubrel_answers_pubrec(address: Address, version: int, code: int) -> None:
    """Each PUBREC is answered with PUBREL of the same packet identifier."""
    topic = unique("flow")
    with connected(address, version) as client, connected(address, version) as publisher:
        subscribe(client, Subscription(topic, 2))
        for _ in range(5):
            publisher.publish(topic, b"", 2)
        for message in reversed(take(client, 5)):
            client.send(Pubrec(message.packet_id, code))
            assert client.expect(Pubrel).packet_id == message.packet_id


def test_pubrel_even_when_nothing_else_may_be_sent(address: Address) -> None:
    """PUBREC is answered at once although Receive Maximum is used up [MQTT-3.3.4-10]."""
    topic = unique("flow")
    with connected(address, 5, properties={props.RECEIVE_MAXIMUM: 2}) as client, connected(address, 5) as publisher:
        subscribe(client, Subscription(topic, 2))
        for _ in range(5):
            publisher.publish(topic, b"", 2)
        for message in take(client, 2):
            client.send(Pubrec(message.packet_id))
            assert client.expect(Pubrel).packet_id == message.packet_id
        client.expect_nothing_more()


@pytest.mark.parametrize("code", [0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99])
def test_pubrec_that_refuses_is_not_answered(address: Address, code: int) -> None:
    """A PUBREC of 0x80 or above ends the exchange: no PUBREL follows."""
    topic = unique("flow")
    with connected(address, 5) as client, connected(address, 5) as publisher:
        subscribe(client, Subscription(topic, 2))
        publisher.publish(topic, b"", 2)
        (message,) = take(client, 1)
        client.send(Pubrec(message.packet_id, code))
        client.expect_nothing_more()


@pytest.mark.parametrize("qos", [1, 2])
def test_unacknowledged_until_answered(address: Address, version: int, qos: int) -> None:
    """A delivery is resent at each reconnect until it gets PUBACK or PUBREC."""
    topic = unique("flow")
    with KeptSession(address, version) as session, connected(address, version) as publisher:
        client = session.connect()
        subscribe(client, Subscription(topic, qos))
        publisher.publish(topic, b"payload", qos)
        (first,) = take(client, 1)
        for _ in range(2):
            client.close()
            client = session.connect()
            (message,) = take(client, 1)
            assert (message.packet_id, message.payload, message.dup) == (first.packet_id, b"payload", True)
        client.finish(message)
        client.expect_nothing_more()
        client.close()
        session.connect().expect_nothing_more()


def test_pubrel_is_unacknowledged_until_pubcomp(address: Address, version: int) -> None:
    """PUBREL is resent at each reconnect until PUBCOMP comes, and the PUBLISH is not."""
    topic = unique("flow")
    with KeptSession(address, version) as session, connected(address, version) as publisher:
        client = session.connect()
        subscribe(client, Subscription(topic, 2))
        publisher.publish(topic, b"payload", 2)
        (message,) = take(client, 1)
        client.send(Pubrec(message.packet_id))
        assert client.expect(Pubrel).packet_id == message.packet_id
        for _ in range(2):
            client.close()
            client = session.connect()
            assert client.expect(Pubrel).packet_id == message.packet_id
            client.expect_nothing_more()
        client.send(Pubcomp(message.packet_id))
        client.expect_nothing_more()
        client.close()
        session.connect().expect_nothing_more()


def test_pubrec_again(address: Address, version: int) -> None:
    """A second PUBREC, such as after a reconnect, is answered with PUBREL again and causes no PUBLISH."""
    topic = unique("flow")
    with KeptSession(address, version) as session, connected(address, version) as publisher:
        client = session.connect()
        subscribe(client, Subscription(topic, 2))
        publisher.publish(topic, b"payload", 2)
        (message,) = take(client, 1)
        for _ in range(2):
            client.send(Pubrec(message.packet_id))
            assert client.expect(Pubrel).packet_id == message.packet_id
        client.send(Pubcomp(message.packet_id))
        client.expect_nothing_more()


def test_no_expiry_once_sent(address: Address) -> None:
    """A QoS 2 message that has been sent does not expire: the exchange continues, also after a reconnect."""
    topic = unique("expiry")
    with KeptSession(address, 5) as session, connected(address, 5) as publisher:
        client = session.connect()
        subscribe(client, Subscription(topic, 2))
        for payload in (b"sent", b"released"):
            publisher.publish(topic, payload, 2, properties={props.MESSAGE_EXPIRY_INTERVAL: 1})
        first, released = take(client, 2)
        client.send(Pubrec(released.packet_id))
        assert client.expect(Pubrel).packet_id == released.packet_id
        let_pass(PAST)
        client.close()
        client = session.connect()
        packets = [client.receive(), client.receive()]
        assert [one.packet_id for one in packets if isinstance(one, Pubrel)] == [released.packet_id]
        (again,) = [one for one in packets if isinstance(one, Publish)]
        assert (again.packet_id, again.payload, again.dup) == (first.packet_id, b"sent", True)
        client.send(Pubcomp(released.packet_id))
        client.finish(again)
        client.expect_nothing_more()


# -- the server receives


@pytest.mark.parametrize("packet_id", [1, 255, 256, 65535])
@pytest.mark.parametrize("qos", [1, 2])
def test_answer_has_the_packet_identifier(address: Address, version: int, qos: int, packet_id: int) -> None:
    """PUBACK, PUBREC and PUBCOMP have the packet identifier of the PUBLISH, and the message is delivered."""
    topic = unique("flow")
    with connected(address, version) as client, connected(address, version) as publisher:
        subscribe(client, Subscription(topic, qos))
        publisher.send(publish(topic, qos, packet_id))
        if qos == 1:
            assert publisher.expect(Puback).packet_id == packet_id
        else:
            assert publisher.expect(Pubrec).packet_id == packet_id
            publisher.send(Pubrel(packet_id))
            assert publisher.expect(Pubcomp).packet_id == packet_id
        assert payloads(messages(client, publisher, qos)) == [b"payload"]


@pytest.mark.parametrize("dup", [False, True])
def test_after_puback_it_is_a_new_message(address: Address, version: int, dup: bool) -> None:
    """A PUBLISH with a packet identifier that PUBACK has freed is a new message, with or without DUP."""
    topic = unique("flow")
    with connected(address, version) as client, connected(address, version) as publisher:
        subscribe(client, Subscription(topic, 1))
        for payload in (b"first", b"second", b"second"):
            publisher.send(publish(topic, 1, 7, payload, dup=dup and payload == b"second"))
            assert publisher.expect(Puback).packet_id == 7
        assert payloads(messages(client, publisher, 1)) == [b"first", b"second", b"second"]


@pytest.mark.parametrize("dup", [False, True])
def test_until_pubrel_it_is_the_same_message(address: Address, version: int, dup: bool) -> None:
    """Until PUBREL, a PUBLISH with the same packet identifier gets PUBREC again and is not delivered again."""
    topic = unique("flow")
    with connected(address, version) as client, connected(address, version) as publisher:
        subscribe(client, Subscription(topic, 2))
        for number in range(3):
            publisher.send(publish(topic, 2, 7, dup=dup and number > 0))
            answer = publisher.expect(Pubrec)
            assert answer.packet_id == 7
            assert answer.reason_code < 0x80
        publisher.send(Pubrel(7))
        assert publisher.expect(Pubcomp).packet_id == 7
        assert payloads(messages(client, publisher, 2)) == [b"payload"]


def test_until_pubrel_on_the_next_connection(address: Address, version: int) -> None:
    """The same after a reconnect to the session."""
    topic = unique("flow")
    with KeptSession(address, version) as session, connected(address, version) as client:
        subscribe(client, Subscription(topic, 2))
        publisher = session.connect()
        publisher.send(publish(topic, 2, 7))
        publisher.expect(Pubrec)
        publisher.close()
        publisher = session.connect()
        publisher.send(publish(topic, 2, 7, dup=True))
        assert publisher.expect(Pubrec).packet_id == 7
        publisher.close()
        publisher = session.connect()
        publisher.send(Pubrel(7))
        pubcomp = publisher.expect(Pubcomp)
        assert (pubcomp.packet_id, pubcomp.reason_code) == (7, 0)
        assert payloads(messages(client, publisher, 2)) == [b"payload"]


def test_pubrel_again(address: Address, version: int) -> None:
    """A second PUBREL, such as after a reconnect, is answered with PUBCOMP too."""
    topic = unique("flow")
    with connected(address, version) as publisher:
        publisher.send(publish(topic, 2, 7))
        publisher.expect(Pubrec)
        for _ in range(2):
            publisher.send(Pubrel(7))
            assert publisher.expect(Pubcomp).packet_id == 7


@pytest.mark.parametrize("dup", [False, True])
def test_after_pubcomp_it_is_a_new_message(address: Address, version: int, dup: bool) -> None:
    """A PUBLISH with a packet identifier that PUBCOMP has freed is a new message."""
    topic = unique("flow")
    with connected(address, version) as client, connected(address, version) as publisher:
        subscribe(client, Subscription(topic, 2))
        for payload in (b"first", b"second"):
            publisher.send(publish(topic, 2, 7, payload, dup=dup and payload == b"second"))
            publisher.expect(Pubrec)
            publisher.send(Pubrel(7))
            assert publisher.expect(Pubcomp).packet_id == 7
        assert payloads(messages(client, publisher, 2)) == [b"first", b"second"]


def refused_then_taken(client: WireClient, publisher: WireClient, refused: Publish, topic: str) -> None:
    """The PUBREC of `refused` refuses it; the next PUBLISH with its packet identifier is delivered."""
    subscribe(client, Subscription(topic, 2))
    publisher.send(refused)
    pubrec = publisher.expect(Pubrec)
    assert (pubrec.packet_id, pubrec.reason_code >= 0x80) == (7, True)
    publisher.send(publish(topic, 2, 7, b"new"))
    pubrec = publisher.expect(Pubrec)
    assert (pubrec.packet_id, pubrec.reason_code) == (7, 0)
    publisher.send(Pubrel(7))
    assert publisher.expect(Pubcomp).reason_code == 0
    assert payloads(messages(client, publisher, 2)) == [b"new"]


def test_after_a_pubrec_that_refuses_it_is_a_new_message(configured: Configured) -> None:
    """After a PUBREC of 0x80 or above, the next PUBLISH with the packet identifier is a new message."""
    topic, denied = unique("flow"), unique("denied")
    address = configured(authorization={"deny_publish": [denied]})
    with connected(address, 5) as client, connected(address, 5) as publisher:
        refused_then_taken(client, publisher, publish(denied, 2, 7), topic)


def test_after_a_wrong_payload_it_is_a_new_message(configured: Configured) -> None:
    """The same when the payload was refused."""
    topic = unique("flow")
    address = configured(mqtt={"check_payload_format": True})
    wrong = Publish(topic.encode(), b"\xff", 2, properties={props.PAYLOAD_FORMAT_INDICATOR: 1}, packet_id=7)
    with connected(address, 5) as client, connected(address, 5) as publisher:
        refused_then_taken(client, publisher, wrong, topic)


def test_expired_exchange_goes_on(address: Address) -> None:
    """A QoS 2 exchange continues after its message has expired: PUBREC again, then PUBCOMP."""
    topic, nobodys = unique("expiry"), unique("nobody")
    with KeptSession(address, 5) as session, connected(address, 5) as publisher:
        client = session.connect()
        subscribe(client, Subscription(topic, 2))
        client.disconnect()
        expiring: Properties = {props.MESSAGE_EXPIRY_INTERVAL: 1}
        sent = [Publish(name.encode(), b"", 2, False, expiring, number) for number, name in ((7, topic), (8, nobodys))]
        publisher.send(*sent)
        assert [publisher.expect(Pubrec).packet_id for _ in sent] == [7, 8]
        let_pass(PAST)
        publisher.send(*sent)
        assert [publisher.expect(Pubrec).packet_id for _ in sent] == [7, 8]
        publisher.send(Pubrel(7), Pubrel(8))
        answers = [publisher.expect(Pubcomp) for _ in sent]
        assert [(answer.packet_id, answer.reason_code) for answer in answers] == [(7, 0), (8, 0)]


def test_exchange_of_a_message_that_expires_at_once(address: Address) -> None:
    """The same for a message that expires at once."""
    topic = unique("expiry")
    with connected(address, 5) as client, connected(address, 5) as publisher:
        subscribe(client, Subscription(topic, 2))
        publisher.publish(topic, b"", 2, properties={props.MESSAGE_EXPIRY_INTERVAL: 0})
