"""Acknowledgements over sockets: quotas of both sides, QoS 2 exchanges, resending after a reconnect."""

from collections.abc import Callable, Iterator

import pytest

from protocol import properties as props
from protocol import reason_codes
from protocol.acknowledgements import Puback, Pubcomp, Pubrec, Pubrel
from protocol.disconnect import Disconnect
from protocol.properties import Properties
from protocol.publish import Publish
from tests.support.broker.collecting import collect, collect_packets
from tests.support.process import Address, BrokerProcess
from tests.support.wire import WireClient, connected

Start = Callable[..., BrokerProcess]

RECEIVE_MAXIMUM = 5
"""What the brokers here tell in CONNACK that do not have the default, all ids."""
BURST = 1000


def kept(version: int) -> Properties | None:
    """CONNECT properties for a session that outlives its connection."""
    return {props.SESSION_EXPIRY_INTERVAL: 60} if version == 5 else None


def publishes(topic: str, numbers: range, qos: int) -> list[Publish]:
    """PUBLISHes whose payload and packet id are the numbers."""
    return [Publish(topic.encode(), b"%d" % number, qos, packet_id=number) for number in numbers]


# -- from the client: FC-20 to FC-22


@pytest.mark.parametrize("qos", [1, 2])
def test_receive_maximum(start: Start, qos: int) -> None:
    """FC-20: an MQTT 5 client with more unacknowledged PUBLISHes than its CONNACK allows gets 0x93 [MQTT-3.3.4-7]."""
    settings = {"session": {"receive_maximum": RECEIVE_MAXIMUM}}
    with start(sections=settings) as broker, connected(broker.address(), 5) as client:
        for _ in range(2):
            client.send(*publishes("quota", range(1, RECEIVE_MAXIMUM + 1), 2))
            assert len(collect_packets(client)) == RECEIVE_MAXIMUM
            client.send(*[Pubrel(number) for number in range(1, RECEIVE_MAXIMUM + 1)])
            assert len(collect_packets(client)) == RECEIVE_MAXIMUM
        client.send(*publishes("quota", range(1, RECEIVE_MAXIMUM + 1), 2))
        client.send(*publishes("quota", range(RECEIVE_MAXIMUM + 1, RECEIVE_MAXIMUM + 2), qos))
        last = client.expect_close()
        assert isinstance(last, Disconnect)
        assert last.reason_code == reason_codes.RECEIVE_MAXIMUM_EXCEEDED


def test_answered_within_the_chunk(start: Start) -> None:
    """FC-20: a burst of QoS 1 above Receive Maximum in one chunk is acknowledged while it is handled, and accepted."""
    settings = {"session": {"receive_maximum": 1}}
    with start(sections=settings) as broker, connected(broker.address(), 5) as client:
        client.send(*publishes("quota", range(1, BURST + 1), 1))
        assert [client.expect(Puback).packet_id for _ in range(BURST)] == list(range(1, BURST + 1))


@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("version", [4, 5])
def test_burst_with_defaults(address: Address, version: int, qos: int) -> None:
    """FC-20, FC-22: a client that sends a burst before it reads any answer stays connected and gets all answers."""
    with connected(address, version) as client:
        client.send(*publishes("quota", range(1, BURST + 1), qos))
        answer = Puback if qos == 1 else Pubrec
        assert [client.expect(answer).packet_id for _ in range(BURST)] == list(range(1, BURST + 1))
        if qos == 2:
            client.send(*[Pubrel(number) for number in range(1, BURST + 1)])
            assert [client.expect(Pubcomp).packet_id for _ in range(BURST)] == list(range(1, BURST + 1))


def test_receive_maximum_tolerated(start: Start) -> None:
    """FC-20: with receive_maximum_policy: tolerate PUBLISHes above Receive Maximum are accepted."""
    settings = {"session": {"receive_maximum": 5, "receive_maximum_policy": "tolerate"}}
    with start(sections=settings) as broker, connected(broker.address(), 5) as client:
        for qos in (2, 1):
            client.send(*publishes("tolerated", range(1, 51), qos))
            assert len(collect_packets(client)) == 50


@pytest.mark.parametrize("version", [4, 5])
def test_max_awaiting_rel(start: Start, version: int) -> None:
    """FC-22: QoS 2 above max_awaiting_rel waits unanswered until PUBRELs make room, and keeps its order."""
    settings = {"session": {"max_awaiting_rel": 3}}
    with (
        start(sections=settings) as broker,
        connected(broker.address(), version) as client,
        connected(broker.address(), 4) as subscriber,
    ):
        subscriber.subscribe("awaiting")
        client.send(*publishes("awaiting", range(1, 151), 2))
        answers = collect_packets(client)
        assert [packet.packet_id for packet in answers if isinstance(packet, Pubrec)] == [1, 2, 3]
        assert [message.payload for message in collect(subscriber)] == [b"1", b"2", b"3"]
        client.send(*[Pubrel(number) for number in range(1, 151)])
        answers = collect_packets(client)
        assert [packet.packet_id for packet in answers if isinstance(packet, Pubrec)] == list(range(4, 151))
        assert [packet.packet_id for packet in answers if isinstance(packet, Pubcomp)] == list(range(1, 151))
        assert [message.payload for message in collect(subscriber)] == [b"%d" % number for number in range(4, 151)]


@pytest.mark.parametrize("version", [4, 5])
def test_too_much_past_max_awaiting_rel(start: Start, version: int) -> None:
    """FC-22: above producer_window_size the connection is closed, in MQTT 5 with 0x97, and the log has the reason."""
    settings = {"session": {"max_awaiting_rel": 1, "producer_window_size": "1KiB"}}
    with start(sections=settings) as broker, WireClient(broker.address(), version) as client:
        client.connect("greedy")
        client.send(*publishes("awaiting", range(1, 100), 2))
        last = client.expect_close()
        if version == 5:
            assert isinstance(last, Disconnect)
            assert last.reason_code == reason_codes.QUOTA_EXCEEDED
        why = "QoS 2 PUBLISHes past session.max_awaiting_rel, 1, use up session.producer_window_size, 1024 bytes"
        broker.wait_for_output(lambda lines: sum(why in line and "client_refused" in line for line in lines) == 1, why)


def test_parked_past_the_end(start: Start) -> None:
    """FC-22: a PUBLISH that is parked at a disconnect is resent by its client, and delivered once."""
    settings = {"session": {"max_awaiting_rel": 1}}
    with start(sections=settings) as broker, connected(broker.address(), 4) as subscriber:
        subscriber.subscribe("awaiting")
        with WireClient(broker.address(), 4) as client:
            client.connect("parked", clean_start=False)
            client.send(*publishes("awaiting", range(1, 4), 2))
            assert client.expect(Pubrec).packet_id == 1
            client.reset()
        with WireClient(broker.address(), 4) as client:
            client.connect("parked", clean_start=False)
            client.send(Pubrel(1), *publishes("awaiting", range(2, 4), 2), Pubrel(2))
            collect_packets(client)
        assert [message.payload for message in collect(subscriber)] == [b"1", b"2", b"3"]


@pytest.mark.parametrize("version", [4, 5])
def test_qos2_duplicate(address: Address, version: int) -> None:
    """FC-21: a QoS 2 PUBLISH with a remembered packet id is answered and not routed again."""
    with connected(address, version) as client, connected(address, 4) as subscriber:
        subscriber.subscribe("twice", qos=1)
        first = Publish(b"twice", b"x", 2, packet_id=5)
        again = Publish(b"twice", b"x", 2, packet_id=5, dup=True)
        for packet in (first, again, again):
            client.send(packet)
            assert client.expect(Pubrec).packet_id == 5
        assert len(collect(subscriber)) == 1
        client.send(Pubrel(5))
        assert client.expect(Pubcomp).packet_id == 5
        client.send(first)
        client.expect(Pubrec)
        assert len(collect(subscriber)) == 1


@pytest.mark.parametrize("version", [4, 5])
def test_qos2_duplicate_after_a_reconnect(address: Address, version: int) -> None:
    """FC-21: a kept session remembers the packet id over a reconnect [MQTT-4.3.3-10]."""
    name = f"remembers-{version}"
    with connected(address, 4) as subscriber:
        subscriber.subscribe(name)
        with WireClient(address, version) as client:
            client.connect(name, clean_start=False, properties=kept(version))
            client.send(Publish(name.encode(), b"x", 2, packet_id=5))
            client.expect(Pubrec)
            client.reset()
        with WireClient(address, version) as client:
            assert client.connect(name, clean_start=False, properties=kept(version)).session_present
            client.send(Publish(name.encode(), b"x", 2, packet_id=5, dup=True))
            client.expect(Pubrec)
            client.send(Pubrel(5))
            assert client.expect(Pubcomp).reason_code == 0
        assert len(collect(subscriber)) == 1


@pytest.mark.parametrize("version", [4, 5])
def test_unknown_pubrel(address: Address, version: int) -> None:
    """FC-21: a PUBREL is always answered, with 0x92 in MQTT 5 if its packet id is unknown."""
    with connected(address, version) as client:
        client.send(Pubrel(77))
        pubcomp = client.expect(Pubcomp)
        assert pubcomp.packet_id == 77
        assert pubcomp.reason_code == (0 if version == 4 else reason_codes.PACKET_IDENTIFIER_NOT_FOUND)


@pytest.mark.parametrize("version", [4, 5])
def test_unknown_acknowledgements(address: Address, version: int) -> None:
    """Acknowledgements for unknown packet ids change nothing; an unknown PUBREC is answered with PUBREL."""
    with connected(address, version) as client:
        client.send(Puback(7), Pubcomp(8), Pubrec(9))
        pubrel = client.expect(Pubrel)
        assert pubrel.packet_id == 9
        assert pubrel.reason_code == (0 if version == 4 else reason_codes.PACKET_IDENTIFIER_NOT_FOUND)
        client.expect_nothing_more()


@pytest.mark.parametrize(
    ("qos", "wrong"), [(1, [Pubrec]), (1, [Pubcomp]), (2, [Puback]), (2, [Pubcomp]), (2, [Pubrec, Puback])]
)
@pytest.mark.parametrize("version", [4, 5])
def test_wrong_acknowledgements(
    start: Start, version: int, qos: int, wrong: list[type[Puback | Pubrec | Pubcomp]]
) -> None:
    """FC-21: an acknowledgement of the wrong kind closes the connection, so that a full window does not stall."""
    settings = {"session": {"max_inflight": 1}}
    with start(sections=settings) as broker:
        with WireClient(broker.address(), version) as client:
            client.connect("wrong", clean_start=False, properties=kept(version))
            client.subscribe("wrong", qos=qos)
            with connected(broker.address(), 4) as publisher:
                for payload in (b"a", b"b"):
                    publisher.publish("wrong", payload, 1 if qos == 1 else 2)
            packet_id = client.expect(Publish).packet_id
            client.send(*[acknowledgement(packet_id) for acknowledgement in wrong])
            last = client.expect_close()
            if version == 5:
                assert isinstance(last, Disconnect)
                assert last.reason_code == reason_codes.PROTOCOL_ERROR
        with WireClient(broker.address(), version) as client:
            assert client.connect("wrong", clean_start=False, properties=kept(version)).session_present
            assert [message.payload for message in collect(client)] == ([b"b"] if len(wrong) == 2 else [b"a", b"b"])


# -- to the client: FC-1, FC-8, FC-9


@pytest.fixture
def publisher(address: Address) -> Iterator[WireClient]:
    """Somebody who publishes."""
    with connected(address, 4) as client:
        yield client


@pytest.mark.parametrize(("asked", "window"), [(0, 32), (1, 1), (5, 5), (1000, 32)])
def test_window(address: Address, publisher: WireClient, asked: int, window: int) -> None:
    """FC-1, FC-4: at most max_inflight and the client's Receive Maximum are unacknowledged [MQTT-3.3.4-9]."""
    with WireClient(address, 5) as client:
        client.connect(properties={props.RECEIVE_MAXIMUM: asked} if asked else None)
        client.subscribe("window", qos=1)
        for number in range(40):
            publisher.publish("window", b"%d" % number, 1)
        messages = collect(client, acknowledge=False)
        assert [message.payload for message in messages] == [b"%d" % number for number in range(window)]
        client.send(Puback(messages[0].packet_id))
        messages += collect(client, acknowledge=False)
        assert len(messages) == window + 1
        client.send(*[Puback(message.packet_id) for message in messages[1:]])
        assert len(collect(client)) == 40 - window - 1


def test_refused_with_pubrec(address: Address, publisher: WireClient) -> None:
    """FC-1: a PUBREC with an error frees the slot, and no PUBREL follows [MQTT-4.3.3-4]."""
    with WireClient(address, 5) as client:
        client.connect(properties={props.RECEIVE_MAXIMUM: 1})
        client.subscribe("refused", qos=2)
        for number in range(2):
            publisher.publish("refused", b"%d" % number, 2)
        client.send(Pubrec(client.expect(Publish).packet_id, reason_codes.QUOTA_EXCEEDED))
        assert client.expect(Publish).payload == b"1"


@pytest.mark.parametrize("version", [4, 5])
def test_resent_in_order(address: Address, publisher: WireClient, version: int) -> None:
    """FC-8: after a reconnect the window is resent in order, with DUP and the same ids, before new messages."""
    name = f"resent-{version}"
    with WireClient(address, version) as client:
        client.connect(name, clean_start=False, properties=kept(version))
        client.subscribe(f"{name}/#", qos=2)
        for number in range(6):
            publisher.publish(f"{name}/{number}", b"x", 1 + number % 2)
        sent = collect(client, acknowledge=False)
        assert [message.dup for message in sent] == [False] * 6
        client.send(Puback(sent[0].packet_id), Pubrec(sent[1].packet_id), Puback(sent[4].packet_id))
        assert client.expect(Pubrel).packet_id == sent[1].packet_id
        client.reset()
    publisher.publish(f"{name}/new", b"x", 1)
    with WireClient(address, version) as client:
        assert client.connect(name, clean_start=False, properties=kept(version)).session_present
        packets = collect_packets(client, acknowledge=False)
        expected = [sent[2], sent[3], sent[5]]
        assert isinstance(packets[0], Pubrel)
        assert packets[0].packet_id == sent[1].packet_id
        again = [packet for packet in packets[1:] if isinstance(packet, Publish)]
        assert [(message.topic, message.packet_id, message.qos, message.dup) for message in again[:3]] == [
            (message.topic, message.packet_id, message.qos, True) for message in expected
        ]
        # If the broker had not noticed the reset yet, it has sent this one before too, and DUP says so.
        assert [message.topic for message in again[3:]] == [f"{name}/new".encode()]
        client.send(Pubcomp(sent[1].packet_id), *[Puback(m.packet_id) for m in again if m.qos == 1])
        client.send(*[Pubrec(m.packet_id) for m in again if m.qos == 2])
        collect_packets(client)
    with WireClient(address, version) as client:
        client.connect(name, clean_start=False, properties=kept(version))
        assert collect_packets(client) == []


def test_retry(start: Start) -> None:
    """FC-8: a connected 3.1.1 client is resent what it has not acknowledged; an MQTT 5 client never."""
    settings = {"session": {"retry_interval": "300ms"}}
    with (
        start(sections=settings) as broker,
        connected(broker.address(), 4) as old,
        connected(broker.address(), 5) as new,
        connected(broker.address(), 5) as publisher,
    ):
        for client in (old, new):
            client.subscribe("retry", qos=2)
        publisher.publish("retry", b"1", 1)
        publisher.publish("retry", b"2", 2)
        first = [old.expect(Publish), old.expect(Publish)]
        second = [old.expect(Publish), old.expect(Publish)]
        assert [(message.payload, message.dup) for message in first] == [(b"1", False), (b"2", False)]
        assert [(message.payload, message.dup) for message in second] == [(b"1", True), (b"2", True)]
        assert [message.packet_id for message in first] == [message.packet_id for message in second]
        old.send(Puback(first[0].packet_id), Pubrec(first[1].packet_id))
        assert [old.expect(Pubrel).packet_id for _ in range(2)] == [first[1].packet_id] * 2
        old.send(Pubcomp(first[1].packet_id))
        assert [message.dup for message in collect(new, acknowledge=False)] == [False, False]


def test_the_example(start: Start) -> None:
    """FC-9: window 2, messages 1 to 4, 2 and 3 unacknowledged, gives 1 2 3 2 3 4."""
    settings = {"session": {"max_inflight": 2}}
    with start(sections=settings) as broker, connected(broker.address(), 5) as publisher:
        order = []
        with WireClient(broker.address(), 4) as client:
            client.connect("example", clean_start=False)
            client.subscribe("example", qos=1)
            for number in range(1, 5):
                publisher.publish("example", b"%d" % number, 1)
            order += collect(client, acknowledge=False)
            client.send(Puback(order[0].packet_id))
            order += collect(client, acknowledge=False)
            client.reset()
        with WireClient(broker.address(), 4) as client:
            client.connect("example", clean_start=False)
            again = collect(client, acknowledge=False)
            client.send(*[Puback(message.packet_id) for message in again])
            order += again + collect(client)
        assert [message.payload for message in order] == [b"1", b"2", b"3", b"2", b"3", b"4"]
