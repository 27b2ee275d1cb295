"""Many retained messages for one subscription: they wait until the session can send, and none is dropped."""

from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from broker.routing.retained_feed import WORK
from broker.storage.compaction import Compaction
from protocol import properties as props
from protocol.acknowledgements import Puback
from protocol.connect import Connect
from protocol.packet import Packet
from protocol.publish import Publish
from protocol.subscribe import Subscribe, Subscription
from protocol.unsubscribe import Unsubscribe
from tests.broker.conftest import Start
from tests.support.broker.collecting import collect, collect_packets
from tests.support.broker.local import LocalBroker
from tests.support.broker.stored import KEPT, broker_on, on_disk, say
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


TOPICS = 12
STEP = st.one_of(
    st.tuples(st.sampled_from(["take", "replace", "clear", "subscribe"]), st.integers(0, TOPICS - 1)),
    st.tuples(st.sampled_from(["restart", "compact", "reconnect"]), st.just(0)),
)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(STEP, max_size=8))
def test_what_is_owed_comes_once(steps: list[tuple[str, int]]) -> None:
    """FC-6, FC-27: whatever comes between, each topic's last message comes, as retained or as published, not both."""
    with TemporaryDirectory() as name, ExitStack() as stack:
        local, storage = stack.enter_context(broker_on(Path(name), session={"max_inflight": 2}))
        retained = {b"r/%d" % topic: b"0" for topic in range(TOPICS)}
        publish_all(local, retained)
        client = local.client()
        kept = Connect("client", False, 0, properties=KEPT, version=5)
        subscribe = Subscribe(1, [Subscription("r/+", 1)])
        got = messages(say(local, storage, client, kept, subscribe))
        subscribed, compacted = 1, False
        for number, (step, place) in enumerate(steps, 1):
            topic = b"r/%d" % place
            if step == "take":
                got += messages(say(local, storage, client, *[Puback(each.packet_id) for each in got[-2:]]))
            elif step in {"replace", "clear"}:
                retained[topic] = b"%d" % number if step == "replace" else b""
                publish_all(local, {topic: retained[topic]})
            elif step == "subscribe":
                got += messages(say(local, storage, client, subscribe))
                subscribed += 1
            elif step == "compact":
                on_disk(local, storage)
                local.complete(Compaction(storage).remove_oldest())
                compacted = True
            else:
                if step == "restart":
                    stack.close()
                    local, storage = stack.enter_context(broker_on(Path(name), session={"max_inflight": 2}))
                else:
                    client.drop()
                client = local.client()
                got += messages(say(local, storage, client, kept))
        fresh = got[-2:]
        while fresh:
            fresh = messages(say(local, storage, client, *[Puback(each.packet_id) for each in fresh]))
            got += fresh
        for topic, payload in retained.items():
            assert (topic, payload) in {(each.topic, each.payload) for each in got} or not payload
            times = len([each for each in got if (each.topic, each.payload, each.dup) == (topic, payload, False)])
            assert times <= subscribed or compacted or not payload  # a topic may be cleared several times
        on_disk(local, storage)
        assert all(not saved.owed for saved in storage.read().sessions.values())


def publish_all(local: LocalBroker, retained: dict[bytes, bytes]) -> None:
    """Retain these messages."""
    publisher = local.client()
    publisher.connect("publisher")
    numbered = enumerate(retained.items(), 1)
    packets = [Publish(topic, payload, 1, True, None, number) for number, (topic, payload) in numbered]
    publisher.send(*packets)


def messages(packets: list[Packet]) -> list[Publish]:
    """The messages among these."""
    return [packet for packet in packets if isinstance(packet, Publish)]


def test_only_what_waits_is_written(tmp_path: Path) -> None:
    """FC-27: for sessions that end with their connection, and what can be sent at once, nothing is written."""
    with broker_on(tmp_path, session={"max_inflight": 4}) as (local, storage):
        publish_all(local, {b"r/%d" % number: b"x" for number in range(TOPICS)})
        kept, clean = local.client(), local.client()
        say(local, storage, clean, Connect("clean", True, 0, version=5), Subscribe(1, [Subscription("r/+", 1)]))
        say(local, storage, kept, Connect("kept", False, 0, properties=KEPT, version=5))
        say(local, storage, kept, Subscribe(2, [Subscription("r/1", 1)]))
        on_disk(local, storage)
        assert [saved.owed for saved in storage.read().sessions.values()] == [{}]
        say(local, storage, kept, Subscribe(2, [Subscription("r/+", 1)]))
        assert [list(saved.owed) for saved in storage.read().sessions.values()] == [["r/+"]]
        say(local, storage, kept, Unsubscribe(3, ["r/+"]))
        assert [saved.owed for saved in storage.read().sessions.values()] == [{}]
