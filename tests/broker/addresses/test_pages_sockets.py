"""Addresses that page, over sockets: what is acknowledged arrives, in order, by way of the disk."""

import time
from pathlib import Path

import pytest

from broker.storage.found import names
from protocol import properties as props
from protocol import reason_codes
from protocol.acknowledgements import Puback, Pubcomp, Pubrec, Pubrel
from protocol.connect import Will
from protocol.publish import Publish
from protocol.subscribe import Subscribe as SubscribePacket
from protocol.subscribe import Subscription
from tests.broker.conftest import Start
from tests.support.broker.collecting import collect
from tests.support.broker.events import wait_for_event
from tests.support.broker.paged import (
    FITTING,
    TOPIC,
    Subscribe,
    are_gone,
    expiry,
    fill,
    number_of,
    pages,
    paging_broker,
    payload,
    publish,
    sections,
)
from tests.support.waiting import wait_until
from tests.support.wire import WireClient, connected

MIB = 1024 * 1024


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("qos", [1, 2])
def test_there_and_back(start: Start, directory: Path, subscribe: Subscribe, version: int, qos: int) -> None:
    """FC-26: all that has been acknowledged arrives once and in order, and so does what comes meanwhile."""
    broker = paging_broker(start, directory)
    subscriber = subscribe(broker.address(), version, qos)
    with connected(broker.address(), 9 - version) as publisher:
        publish(publisher, range(300), qos)
        wait_until(lambda: pages(directory) > 0, "pages")
        assert subscriber.take_numbers(100) == list(range(100))
        publish(publisher, range(300, 400), qos)
        assert subscriber.take_numbers(300) == list(range(100, 400))
        wait_until(lambda: are_gone(directory), "no page")
        publish(publisher, range(400, 410), qos)
        assert subscriber.take_numbers(10) == list(range(400, 410))
        assert subscriber.take_rest() == []
        assert are_gone(directory)


@pytest.mark.parametrize("version", [4, 5])
def test_qos0(start: Start, directory: Path, subscribe: Subscribe, version: int) -> None:
    """FC-26: QoS 0 to a subscriber that does not read waits on disk, too, and comes in order."""
    broker = paging_broker(start, directory)
    subscriber = subscribe(broker.address(), version, 0)
    count = 3000
    with connected(broker.address(), version) as publisher:
        for first in range(0, count, 100):
            publisher.send(*[Publish(TOPIC.encode(), payload(number, 2000)) for number in range(first, first + 100)])
            publisher.expect_nothing_more()
        wait_until(lambda: pages(directory) > 0, "pages")
        assert subscriber.take_numbers(count) == list(range(count))
        assert subscriber.take_rest() == []


def test_qos_of_each(start: Start, directory: Path, subscribe: Subscribe) -> None:
    """FC-26: paged messages keep their QoS, each subscriber has its own of it, and all have the same order."""
    broker = paging_broker(start, directory)
    subscribers = [subscribe(broker.address(), 5, qos) for qos in (1, 2)]
    with connected(broker.address(), 5) as publisher:
        for number in range(300):
            publisher.publish(TOPIC, payload(number), number % 3)
        wait_until(lambda: pages(directory) > 0, "pages")
        for _ in range(30):
            for subscriber, highest in zip(subscribers, (1, 2), strict=True):
                messages = subscriber.take(10)
                assert [message.qos for message in messages] == [
                    min(number_of(message) % 3, highest) for message in messages
                ]


def test_several_addresses(start: Start, directory: Path, subscribe: Subscribe) -> None:
    """FC-26: each topic has pages of its own; one that nobody takes from does not hold up the others."""
    broker = paging_broker(start, directory)
    subscribers = [subscribe(broker.address(), 5, 1, f"paged/{name}") for name in "abc"]
    with connected(broker.address(), 5) as publisher:
        for number in range(100):
            for name in "abc":
                publisher.publish(f"paged/{name}", payload(number), 1)
        assert pages(directory) > 3 * 50
        for subscriber in subscribers[1:]:
            assert subscriber.take_numbers(100) == list(range(100))
        publisher.publish("not/paged", b"x", 1)
    assert subscribers[0].take_numbers(100) == list(range(100))


def test_properties(start: Start, directory: Path, subscribe: Subscribe) -> None:
    """FC-26: a message that was on disk has all its properties; its alias was between the publisher and the broker."""
    broker = paging_broker(start, directory)
    subscriber = subscribe(broker.address(), 5, 1)
    sent: props.Properties = {props.CONTENT_TYPE: "text", props.USER_PROPERTY: [("a", "b")]}
    with connected(broker.address(), 5) as publisher:
        publish(publisher, range(50), 1)
        publisher.publish(TOPIC, payload(50), 1, properties={**sent, props.TOPIC_ALIAS: 1})
        publisher.publish("", payload(51), 1, properties={**sent, props.TOPIC_ALIAS: 1})
    subscriber.take(50)
    for number in (50, 51):
        (message,) = subscriber.take(1)
        assert (message.topic, message.payload, message.properties) == (TOPIC.encode(), payload(number), sent)


def test_expiry(start: Start, directory: Path, subscribe: Subscribe) -> None:
    """FC-26: time on disk counts: what has expired is not delivered, the rest says what is left [MQTT-3.3.2-6]."""
    broker = paging_broker(start, directory)
    subscriber = subscribe(broker.address(), 5, 1)
    fill(broker.address(), directory)
    with connected(broker.address(), 5) as publisher:
        for number, seconds in ((100, 1), (101, 100), (102, 1), (103, 200)):
            publish(publisher, [number], 1, properties={props.MESSAGE_EXPIRY_INTERVAL: seconds})
        published = time.monotonic()
        wait_until(lambda: time.monotonic() > published + 1.1, "time to pass")
        assert subscriber.take_numbers(100) == list(range(100))
        first, second = subscriber.take(2)
    assert (number_of(first), number_of(second)) == (101, 103)
    assert 90 <= expiry(first) <= 99
    assert 190 <= expiry(second) <= 199


def test_retained(start: Start, directory: Path, subscribe: Subscribe) -> None:
    """FC-26: a paged message with RETAIN is retained when its turn comes, so who subscribes sees the order."""
    broker = paging_broker(start, directory)
    subscriber = subscribe(broker.address(), 5, 1)
    with connected(broker.address(), 5) as publisher, connected(broker.address(), 5) as late:
        publish(publisher, range(100), 1, retain=True)
        late.subscribe(TOPIC, qos=0)
        retained = late.receive_message()
        assert retained.retain
        assert number_of(retained) < 99
        assert subscriber.take_numbers(100) == list(range(100))
        assert [number_of(message) for message in collect(late)] == list(range(number_of(retained) + 1, 100))
        late.subscribe(TOPIC, qos=0)
        assert number_of(late.receive_message()) == 99


def test_no_local(start: Start, directory: Path, subscribe: Subscribe) -> None:
    """FC-26: no message comes back to its publisher's No Local subscription by way of the disk [MQTT-3.8.3-3]."""
    broker = paging_broker(start, directory)
    subscriber = subscribe(broker.address(), 5, 1)
    with connected(broker.address(), 5, client_id="one") as one, connected(broker.address(), 5, client_id="two") as two:
        for client in (one, two):
            client.send(SubscribePacket(1, [Subscription(TOPIC, 0, no_local=True)]))
            client.receive()
        for number in range(50):
            one.send(Publish(TOPIC.encode(), payload(number), 1, packet_id=1))
            two_got = []
            while not isinstance(answer := one.receive(), Puback):
                two_got.append(answer)
            assert two_got == []
        assert subscriber.take_numbers(50) == list(range(50))
        assert [number_of(message) for message in collect(two)] == list(range(50))
        one.expect_nothing_more()


def test_the_publisher_subscribes(start: Start, directory: Path) -> None:
    """FC-26: a client that publishes to an address and takes from it gets all it has sent, whatever its window."""
    broker = paging_broker(start, directory)
    with connected(broker.address(), 5) as client:
        client.subscribe("paged/#", qos=1)
        sent = acknowledged = 0
        received: list[int] = []
        while len(received) < 300:
            while sent < min(acknowledged + 32, 300):
                sent += 1
                client.send(Publish(TOPIC.encode(), payload(sent - 1), 1, packet_id=sent))
            packet = client.receive()
            if isinstance(packet, Publish):
                received.append(number_of(packet))
                client.send(Puback(packet.packet_id))
            else:
                acknowledged += 1
        assert received == list(range(300))


def test_counted(start: Start, directory: Path, subscribe: Subscribe) -> None:
    """FC-26: how many of an address have been on disk is said when it has room again."""
    broker = paging_broker(start, directory)
    subscriber = subscribe(broker.address(), 5, 1)
    fill(broker.address(), directory)
    assert subscriber.take_numbers(100) == list(range(100))
    assert [event["paged"] for event in wait_for_event(broker, "address_has_room")] == [100 - FITTING]


@pytest.mark.parametrize("qos", [1, 2])
def test_page_limit_fail(start: Start, directory: Path, subscribe: Subscribe, qos: int) -> None:
    """FC-26: past `page_limit_bytes` a PUBLISH is answered with 0x97 in MQTT 5, until some are gone from the disk."""
    broker = paging_broker(start, directory, page_limit_bytes=20_000)
    subscriber = subscribe(broker.address(), 5, 1)
    answers: list[int] = []
    with connected(broker.address(), 5) as publisher:
        while len(answers) < 100:
            answers.append(answer_to(publisher, len(answers), qos))
        taken = answers.count(reason_codes.SUCCESS)
        assert 20 + 30 < taken < 20 + 40  # in sessions and on disk
        assert answers == [reason_codes.SUCCESS] * taken + [reason_codes.QUOTA_EXCEEDED] * (100 - taken)
        assert subscriber.take_numbers(taken) == list(range(taken))
        assert answer_to(publisher, 100, qos) == reason_codes.SUCCESS
        assert subscriber.take_numbers(1) == [100]


def answer_to(publisher: WireClient, number: int, qos: int) -> int:
    """Publish a numbered message; returns the reason code of its acknowledgement."""
    packet_id = publisher.packet_id()
    publisher.send(Publish(TOPIC.encode(), payload(number), qos, packet_id=packet_id))
    answer = publisher.expect(Puback if qos == 1 else Pubrec)
    assert answer.packet_id == packet_id
    if qos == 2 and answer.reason_code == reason_codes.SUCCESS:
        publisher.send(Pubrel(packet_id))
        publisher.expect(Pubcomp)
    return answer.reason_code


def test_page_limit_fail_of_old_clients(start: Start, directory: Path, subscribe: Subscribe) -> None:
    """FC-26: past `page_limit_bytes` a 3.1.1 connection is closed at QoS 1, and QoS 0 is discarded."""
    broker = paging_broker(start, directory, page_limit_bytes=20_000)
    subscriber = subscribe(broker.address(), 4, 1)
    with connected(broker.address(), 4) as publisher:
        acknowledged = 0
        try:
            while acknowledged < 100:
                publish(publisher, [acknowledged], 1)
                acknowledged += 1
        except ConnectionError:
            pass
        assert 20 + 30 < acknowledged < 20 + 40
    with connected(broker.address(), 4) as publisher:
        publish(publisher, range(100, 110), 0)
        publisher.expect_nothing_more()
    assert subscriber.take_numbers(acknowledged) == list(range(acknowledged))
    assert subscriber.take_rest() == []


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_page_limit_drop(start: Start, directory: Path, subscribe: Subscribe, version: int, qos: int) -> None:
    """FC-26: with `page_full_policy: drop` what passes the limit is acknowledged as usual, and not delivered."""
    broker = paging_broker(start, directory, page_limit_bytes=20_000, page_full_policy="drop")
    subscriber = subscribe(broker.address(), version, 1)
    with connected(broker.address(), version) as publisher:
        publish(publisher, range(50), 1)
        publish(publisher, range(50, 100), qos)
        publisher.expect_nothing_more()
    received = subscriber.take_numbers(50)
    wait_until(lambda: are_gone(directory), "no page")
    received += subscriber.take_rest()
    assert received == list(range(len(received)))
    assert 50 < len(received) < 60


def test_away(start: Start, directory: Path) -> None:
    """FC-26: what is on disk for a session without a connection is delivered in order when the client is back."""
    broker = paging_broker(start, directory)
    kept: props.Properties = {props.SESSION_EXPIRY_INTERVAL: 100}
    with WireClient(broker.address(), 5) as client:
        client.connect("kept", properties=kept)
        client.subscribe("paged/#", qos=1)
    fill(broker.address(), directory)
    with WireClient(broker.address(), 5) as client:
        assert client.connect("kept", clean_start=False, properties=kept).session_present
        assert [number_of(client.receive_message()) for _ in range(100)] == list(range(100))


def test_will(start: Start, directory: Path, subscribe: Subscribe) -> None:
    """FC-26: a will gets in line behind what its client has sent before, on disk, too."""
    broker = paging_broker(start, directory)
    subscriber = subscribe(broker.address(), 5, 2)
    publisher = connected(broker.address(), 5, will=Will(TOPIC.encode(), payload(100), 2, False, None))
    publish(publisher, range(100), 1)
    publisher.reset()
    messages = subscriber.take(101)
    assert [number_of(message) for message in messages] == list(range(101))
    assert messages[-1].qos == 2


def test_nobody_left(start: Start, directory: Path, subscribe: Subscribe) -> None:
    """FC-26: when the last subscriber's session ends its pages are for nobody, and go."""
    broker = paging_broker(start, directory)
    subscriber = subscribe(broker.address(), 5, 1)
    fill(broker.address(), directory)
    subscriber.client.disconnect(properties={props.SESSION_EXPIRY_INTERVAL: 0})
    wait_until(lambda: are_gone(directory), "no page")


def test_bounded_memory(start: Start, directory: Path, subscribe: Subscribe) -> None:
    """FC-26: tens of megabytes on disk take none of the broker's memory, and all of them arrive, in order."""
    broker = start(sections=sections(directory, max_size_bytes="1MiB"))
    subscriber = subscribe(broker.address(), 5, 1)
    size, count = 50_000, 1000
    with connected(broker.address(), 5) as publisher:
        publish(publisher, range(30), 1, size)
        before = broker.rss()
        publish(publisher, range(30, count), 1, size)
        assert sum(each.stat().st_size for each in names(directory)) > 40 * MIB
        assert broker.rss() - before < 6 * MIB
    received: list[int] = []
    while len(received) < count:
        received += subscriber.take_numbers(100)
    assert received == list(range(count))
    wait_until(lambda: are_gone(directory), "no page")
