"""FC-24 to FC-26: the answer to a PUBLISH to a full address, for each policy, QoS and version."""

import threading

import pytest

from protocol import properties as props
from protocol import reason_codes
from protocol.acknowledgements import Puback, Pubrec, Pubrel
from protocol.unsubscribe import Unsubscribe
from tests.broker.conftest import Start
from tests.support.broker.collecting import collect, collect_packets
from tests.support.broker.events import wait_for_event
from tests.support.broker.full import (
    FITTING,
    LIMIT,
    SIZE,
    TOPIC,
    address,
    answered,
    answers,
    local_broker,
    number_of,
    packet,
    publisher,
    sections,
    send,
    subscriber,
)
from tests.support.process import Address
from tests.support.wire import WireClient, connected

VERSIONS = pytest.mark.parametrize("version", [4, 5])
ACKNOWLEDGED = pytest.mark.parametrize("qos", [1, 2])
MIB = 1024 * 1024


def filled(where: Address, version: int = 5, topic: str = TOPIC) -> tuple[WireClient, WireClient]:
    """A subscriber that acknowledges nothing, and a publisher that has published as much as fits."""
    reader = connected(where, 5)
    reader.subscribe(topic, qos=1)
    writer = connected(where, version)
    for number in range(1, FITTING + 1):
        writer.publish(topic, packet(number).payload, 1)
    return reader, writer


def receive_numbers(reader: WireClient, count: int) -> list[int]:
    """The next messages, acknowledged."""
    return [number_of(reader.receive_message()) for _ in range(count)]


@VERSIONS
@ACKNOWLEDGED
def test_block(start: Start, version: int, qos: int) -> None:
    """FC-25: a PUBLISH to a full address is answered and routed when there is room, and not before."""
    broker = start(sections=sections("block"))
    reader, writer = filled(broker.address(), version)
    with reader, writer:
        writer.send(packet(11, qos))
        writer.expect_nothing_more()
        assert receive_numbers(reader, 1) == [1]
        answer = writer.expect(Puback if qos == 1 else Pubrec)
        assert (answer.packet_id, answer.reason_code) == (11, 0)
        if qos == 2:
            writer.send(Pubrel(11))
            writer.receive()
        assert receive_numbers(reader, 10) == list(range(2, 12))
        writer.publish(TOPIC, packet(12).payload, qos)
        assert receive_numbers(reader, 1) == [12]


@VERSIONS
def test_block_of_qos0(start: Start, version: int) -> None:
    """FC-25: QoS 0 waits too, and none of it is lost."""
    broker = start(sections=sections("block"))
    reader, writer = filled(broker.address(), version)
    with reader, writer:
        writer.send(*[packet(number, 0) for number in range(11, 31)])
        writer.expect_nothing_more()
        assert receive_numbers(reader, 30) == list(range(1, 31))
        assert wait_for_event(broker, "address_full")[0]["policy"] == "block"


@VERSIONS
@ACKNOWLEDGED
def test_drop(start: Start, version: int, qos: int) -> None:
    """FC-26: with `drop` a PUBLISH is acknowledged and not routed; its QoS 2 id is remembered."""
    broker = start(sections=sections("drop"))
    reader, writer = filled(broker.address(), version)
    with reader, writer:
        writer.publish(TOPIC, b"lost", qos)
        writer.publish(TOPIC, b"lost", 0)
        if qos == 2:
            writer.send(packet(77, 2), packet(77, 2, dup=True))
            assert [writer.expect(Pubrec).reason_code for _ in range(2)] == [0, 0]
        assert [number_of(message) for message in collect(reader)] == list(range(1, 11))
        writer.publish(TOPIC, b"12", qos)
        assert receive_numbers(reader, 1) == [12]


@ACKNOWLEDGED
def test_fail(start: Start, qos: int) -> None:
    """FC-26: with `fail` MQTT 5 clients get 0x97 and a reason; the QoS 2 id is free again."""
    broker = start(sections=sections("fail"))
    reader, writer = filled(broker.address())
    with reader, writer:
        for _ in range(2):
            writer.send(packet(11, qos))
            answer = writer.expect(Puback if qos == 1 else Pubrec)
            assert (answer.packet_id, answer.reason_code) == (11, reason_codes.QUOTA_EXCEEDED)
            assert answer.properties is not None
            assert TOPIC in str(answer.properties[props.REASON_STRING])
        assert [number_of(message) for message in collect(reader)] == list(range(1, 11))
        writer.publish(TOPIC, b"12", qos)
        assert receive_numbers(reader, 1) == [12]


@ACKNOWLEDGED
def test_fail_closes_old_clients(start: Start, qos: int) -> None:
    """FC-26: with `fail` a 3.1.1 connection is closed without an acknowledgement."""
    broker = start(sections=sections("fail"))
    reader, writer = filled(broker.address(), 4)
    with reader, writer:
        writer.send(packet(11, qos))
        assert writer.expect_close() is None
        assert [number_of(message) for message in collect(reader)] == list(range(1, 11))


@VERSIONS
def test_fail_discards_qos0(start: Start, version: int) -> None:
    """FC-26: with `fail` QoS 0 is discarded in both versions, and no connection is closed."""
    broker = start(sections=sections("fail"))
    reader, writer = filled(broker.address(), version)
    with reader, writer:
        writer.send(packet(11, 0))
        writer.expect_nothing_more()
        assert [number_of(message) for message in collect(reader)] == list(range(1, 11))


@pytest.mark.parametrize("policy", ["drop", "fail"])
def test_not_retained(start: Start, policy: str) -> None:
    """FC-26: a message that is not routed is not retained."""
    broker = start(sections=sections(policy))
    reader, writer = filled(broker.address())
    with reader, writer, connected(broker.address(), 5) as other:
        writer.send(packet(11, 1, retain=True))
        writer.expect(Puback)
        other.subscribe(TOPIC)
        other.expect_nothing_more()


def test_address_is_one_topic(start: Start) -> None:
    """FC-24: each matching topic is an address, and other topics have no limit."""
    broker = start(sections=sections("fail"))
    reader, writer = filled(broker.address())
    with reader, writer, connected(broker.address(), 5) as silent:
        silent.subscribe("full/b", "fuller", qos=1)
        writer.publish("full/b", bytes(SIZE), 1)
        for _ in range(20):
            writer.publish("fuller", bytes(SIZE), 1)
        writer.send(packet(11))
        assert writer.expect(Puback).reason_code == reason_codes.QUOTA_EXCEEDED


def test_most_specific_rule(start: Start) -> None:
    """FC-24: the most specific matching filter applies, in any order of the filters."""
    rules = [
        {"match": "#", "max_size_bytes": 1, "full_policy": "fail"},
        {"match": "full/+", "max_size_bytes": LIMIT, "full_policy": "drop"},
        {"match": "+/a", "max_size_bytes": 1, "full_policy": "fail"},
    ]
    broker = start(sections=sections() | {"addresses": rules})
    reader, writer = filled(broker.address())
    with reader, writer, connected(broker.address(), 5) as silent:
        writer.publish(TOPIC, b"dropped", 1)
        silent.subscribe("other/b", qos=1)
        writer.publish("other/b", b"too large, but alone", 1)
        writer.send(packet(1, topic="other/b"))
        assert writer.expect(Puback).reason_code == reason_codes.QUOTA_EXCEEDED


def test_size_is_that_of_all_sessions() -> None:
    """FC-24: the deliveries of all sessions count, offline ones too: two fill an address twice as fast."""
    with local_broker("fail") as local:
        first = subscriber(local)
        second = local.client()
        second.connect("second", properties={props.SESSION_EXPIRY_INTERVAL: 1000})
        second.subscribe(TOPIC, 1)
        second.drop()
        sender = publisher(local)
        send(sender, range(1, 6))
        assert answered(sender) == [1, 2, 3, 4, 5]
        assert address(local).size == LIMIT
        for number in range(1, 3):  # at first there is no room, then for one, then for two
            send(sender, [6])
            assert answers(sender.received()) == [(6, reason_codes.QUOTA_EXCEEDED)]
            first.send(Puback(number))
        send(sender, [6])
        assert answered(sender) == [6]


def test_shared_group_counts_once(start: Start) -> None:
    """FC-24: a delivery of a shared subscription counts once, for any number of members."""
    broker = start(sections=sections("fail"))
    with (
        connected(broker.address(), 5) as first,
        connected(broker.address(), 5) as second,
        connected(broker.address(), 5) as writer,
    ):
        first.subscribe(f"$share/g/{TOPIC}", qos=1)
        second.subscribe(f"$share/g/{TOPIC}", qos=1)
        for number in range(1, 11):
            writer.publish(TOPIC, packet(number).payload, 1)
        writer.send(packet(11))
        assert writer.expect(Puback).reason_code == reason_codes.QUOTA_EXCEEDED
        assert sorted(number_of(message) for message in collect(first) + collect(second)) == list(range(1, 11))
        writer.publish(TOPIC, b"12", 1)


def test_room_for_nobody(start: Start) -> None:
    """FC-24: a message without receivers needs no room."""
    broker = start(sections=sections("fail"))
    reader, writer = filled(broker.address())
    with reader, writer:
        reader.send(Unsubscribe(9, [TOPIC]))
        collect_packets(reader, acknowledge=False)
        writer.send(packet(11))
        assert writer.expect(Puback).reason_code == reason_codes.NO_MATCHING_SUBSCRIBERS


def test_large_message_goes_alone(start: Start) -> None:
    """FC-24: a message larger than the limit is routed when the address is empty."""
    broker = start(sections=sections("block"))
    reader, writer = filled(broker.address())
    with reader, writer:
        writer.send(packet(11, size=5 * LIMIT), packet(12))
        assert receive_numbers(reader, 9) == list(range(1, 10))
        writer.expect_nothing_more()
        assert receive_numbers(reader, 1) == [10]
        assert writer.expect(Puback).packet_id == 11
        writer.expect_nothing_more()
        assert receive_numbers(reader, 2) == [11, 12]
        assert writer.expect(Puback).packet_id == 12


def test_told_once_per_episode(start: Start) -> None:
    """FC-24: the log says once that an address is full, and once that it has room, with counts."""
    broker = start(sections=sections("block"))
    reader, writer = filled(broker.address())
    with reader, writer:
        writer.send(*[packet(number) for number in range(11, 21)])
        assert receive_numbers(reader, 20) == list(range(1, 21))
        (event,) = wait_for_event(broker, "address_has_room")
        assert (event["topic"], event["parked"], event["max_size_bytes"]) == (TOPIC, 10, LIMIT)
        (event,) = wait_for_event(broker, "address_full")
        assert (event["topic"], event["policy"], event["size"]) == (TOPIC, "block", LIMIT)
        assert [writer.expect(Puback).packet_id for _ in range(10)] == list(range(11, 21))


def test_topic_is_quoted_in_part(start: Start) -> None:
    """FC-24: a long topic name is shortened in the log."""
    topic = "full/" + 1000 * "x"
    broker = start(sections=sections("drop"))
    reader, writer = filled(broker.address(), topic=topic)
    with reader, writer:
        writer.send(packet(11, topic=topic))
        (event,) = wait_for_event(broker, "address_full")
        assert topic.startswith(event["topic"])
        assert len(event["topic"]) == 100


def test_others_do_not_notice(start: Start) -> None:
    """FC-25: other clients publish and receive while one publisher is held back."""
    broker = start(sections=sections("block"))
    reader, writer = filled(broker.address())
    with reader, writer, connected(broker.address(), 4) as other, connected(broker.address(), 5) as third:
        third.subscribe("other", "full/b", qos=2)
        writer.send(*[packet(number, 0, size=LIMIT) for number in range(11, 111)])  # more than a producer window
        writer.send(packet(1))
        for number in range(100):
            other.publish("other", b"%d" % number, number % 3)
            assert number_of(third.receive_message()) == number
            other.publish("full/b", b"%d" % number, number % 3)
            assert number_of(third.receive_message()) == number
        assert receive_numbers(reader, 110) == list(range(1, 111))
        writer.expect(Puback)


def test_topic_alias(start: Start) -> None:
    """FC-25: a PUBLISH with a topic alias is parked as any other."""
    broker = start(sections=sections("block"))
    reader, writer = filled(broker.address())
    with reader, writer:
        writer.send(packet(11, properties={props.TOPIC_ALIAS: 1}))
        writer.send(packet(12, topic="", properties={props.TOPIC_ALIAS: 1}))
        writer.expect_nothing_more()
        assert receive_numbers(reader, 12) == list(range(1, 13))
        assert [writer.expect(Puback).packet_id for _ in range(2)] == [11, 12]


def test_bounded_memory(start: Start) -> None:
    """FC-25: a publisher at full speed into a full address takes limit and producer window, and loses nothing."""
    broker = start(sections=sections(max_size_bytes="1MiB"))
    with connected(broker.address(), 5) as reader, connected(broker.address(), 4) as writer:
        reader.subscribe(TOPIC, qos=1)
        before = broker.rss()
        whole = b"".join([packet(number, 0, size=10_000).encode(4) for number in range(10_000)])
        sender = threading.Thread(target=writer.socket.sendall, args=(whole,))
        writer.socket.settimeout(60)
        sender.start()
        for number in range(10_000):
            if number % 1000 == 0:
                assert broker.rss() - before < 16 * MIB
            assert number_of(reader.receive_message()) == number
        sender.join()
