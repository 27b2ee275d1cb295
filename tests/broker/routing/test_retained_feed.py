"""Many retained messages for one subscription: they wait until the session can send, and none is dropped."""

import pytest

from broker.routing.retained_feed import WORK
from protocol import properties as props
from protocol.publish import Publish
from protocol.subscribe import Subscribe, Subscription
from protocol.unsubscribe import Unsubscribe
from tests.broker.conftest import Start
from tests.support.broker.collecting import collect, collect_packets
from tests.support.broker.local import LocalBroker
from tests.support.process import Address
from tests.support.wire import WireClient, connected

COUNT = 400
SECTIONS = {"session": {"max_mqueue_len": 50, "max_inflight": 10}}


def retain(address: Address, qos: int) -> None:
    """Retain the messages."""
    with connected(address, 5) as publisher:
        for number in range(COUNT):
            publisher.publish(f"r/{number}", b"%d" % number, qos, retain=True)


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_all_arrive(start: Start, version: int, qos: int) -> None:
    """FC-6: a subscription gets every retained message, whatever the limits of window and mqueue."""
    address = start(sections=SECTIONS).address()
    retain(address, qos)
    with connected(address, version) as client:
        client.subscribe("r/#", qos=qos)
        messages = collect(client)
        assert sorted(int(message.payload) for message in messages) == list(range(COUNT))
        assert all(message.retain for message in messages)


def test_more_than_a_turn_processes() -> None:
    """FC-6: of very many retained messages each turn sends some, without another event."""
    count = 2 * WORK + 500
    with LocalBroker() as local:
        publisher = local.client()
        publisher.connect("publisher")
        for first in range(0, count, 100):
            publisher.send(*[Publish(b"r/%d" % number, b"x", 0, True) for number in range(first, first + 100)])
        client = local.client()
        client.connect("client")
        client.send(Subscribe(1, [Subscription("r/#", 0)]))
        came = 0
        for _ in range(20):
            came += sum(isinstance(packet, Publish) for packet in client.received())
            local.run(lambda: None)
        assert came == count


def test_filter_that_has_no_room_yet(start: Start) -> None:
    """Filters of a SUBSCRIBE for which the window has no room are served when it has."""
    address = start(sections={"session": {"max_inflight": 1}}).address()
    with connected(address, 5) as publisher:
        for topic in ("a", "b", "c"):
            publisher.publish(topic, topic.encode(), 1, retain=True)
    with connected(address, 5) as client:
        client.send(Subscribe(1, [Subscription(topic, 1) for topic in ("a", "b", "c")]))
        messages = [packet for packet in collect_packets(client) if isinstance(packet, Publish)]
        assert sorted(message.payload for message in messages) == [b"a", b"b", b"c"]


def test_rest_after_a_reconnect(start: Start) -> None:
    """A kept session gets the rest of the retained messages when its client has reconnected."""
    address = start(sections=SECTIONS).address()
    retain(address, 1)
    got: set[bytes] = set()
    with WireClient(address, 5) as client:
        client.connect("back", properties={props.SESSION_EXPIRY_INTERVAL: 60})
        client.subscribe("r/#", qos=1)
        got.add(client.receive_message().payload)
    with WireClient(address, 5) as client:
        assert client.connect("back", clean_start=False).session_present
        got.update(message.payload for message in collect(client))
    assert got == {b"%d" % number for number in range(COUNT)}


def test_unsubscribed_meanwhile(start: Start) -> None:
    """[MQTT-3.10.4-3]: after an unsubscription the retained messages not yet handed over are not sent."""
    address = start(sections=SECTIONS).address()
    retain(address, 1)
    with connected(address, 5) as client:
        client.send(Subscribe(1, [Subscription("r/#", 1)]), Unsubscribe(2, ["r/#"]))
        messages = [packet for packet in collect_packets(client) if isinstance(packet, Publish)]
        assert len(messages) == 10


def test_newer_message_is_not_followed_by_the_old(start: Start) -> None:
    """A retained message that is replaced before it is sent is left out: the newer one is delivered."""
    address = start(sections=SECTIONS).address()
    retain(address, 1)
    with connected(address, 5) as client, connected(address, 5) as publisher:
        client.subscribe("r/#", qos=1)
        for number in range(COUNT - 20, COUNT):
            publisher.publish(f"r/{number}", b"new", 1, retain=True)
        last: dict[bytes, Publish] = {message.topic: message for message in collect(client)}
        assert len(last) == COUNT
        assert all(last[b"r/%d" % number].payload == b"new" for number in range(COUNT - 20, COUNT))
