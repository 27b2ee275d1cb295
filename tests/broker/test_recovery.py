"""FC-27: what is on disk when the broker is killed is restored at its next start."""

import signal
import time
from pathlib import Path
from typing import Any

import pytest

from broker.storage.segments import Segments
from protocol import properties as props
from protocol.acknowledgements import Puback, Pubcomp, Pubrec, Pubrel
from protocol.connect import Connect, Will
from protocol.properties import Properties
from protocol.publish import Publish
from protocol.suback import Suback
from protocol.subscribe import Subscribe, Subscription
from tests.broker.conftest import Start
from tests.support.broker.restarting import KEPT, Restart, come_back, leave, payloads
from tests.support.broker.stored import broker_on, say
from tests.support.broker.stored import connected as stored_client
from tests.support.waiting import wait_until
from tests.support.wire import WireClient, connected


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("version", [4, 5])
def test_what_waited(run: Restart, how: signal.Signals, version: int) -> None:
    """A kept session gets, in order, what was acknowledged while it was offline, and then later messages."""
    broker = run()
    leave(broker, "away", "t/#", version=version)
    with connected(broker.address(), version) as publisher:
        for number in range(50):
            publisher.publish(f"t/{number}", b"%d" % number, 1 + number % 2)
    broker = run(how)
    with come_back(broker, "away", version) as client, connected(broker.address(), 5) as publisher:
        publisher.publish("t/50", b"50", 0)
        assert payloads(client, 51) == [b"%d" % number for number in range(51)]


def test_in_flight(run: Restart) -> None:
    """Deliveries in flight are resent with their packet id and DUP, after PUBREC as PUBREL [MQTT-4.4.0-1]."""
    broker = run()
    leave(broker, "away", "t", qos=2)
    client = come_back(broker, "away")
    with connected(broker.address(), 5) as publisher:
        for number, qos in enumerate((1, 2, 2)):
            publisher.publish("t", b"%d" % number, qos)
    first, second, third = (client.expect(Publish) for _ in range(3))
    client.send(Pubrec(third.packet_id))
    assert client.expect(Pubrel).packet_id == third.packet_id
    broker = run()
    client.close()
    with come_back(broker, "away") as client:
        again = [client.expect(Publish), client.expect(Publish)]
        assert [(each.packet_id, each.payload, each.dup) for each in again] == [
            (first.packet_id, b"0", True),
            (second.packet_id, b"1", True),
        ]
        assert client.expect(Pubrel).packet_id == third.packet_id
        client.send(Puback(first.packet_id), Pubrec(second.packet_id), Pubcomp(third.packet_id))
        client.expect(Pubrel)
        client.send(Pubcomp(second.packet_id))
        client.expect_nothing_more()
    leave(broker, "other", "other")  # its SUBACK has waited for the disk, and with it all that was before
    with come_back(run(), "away") as client:
        client.expect_nothing_more()


def test_a_qos_2_publish_is_routed_once(run: Restart) -> None:
    """A QoS 2 PUBLISH that is resent after PUBREC is not routed again before its PUBREL (FC-21)."""
    broker = run()
    leave(broker, "away", "t")
    leave(broker, "publisher", "none")
    client = come_back(broker, "publisher")
    client.send(Publish(b"t", b"once", 2, packet_id=7))
    client.expect(Pubrec)
    broker = run()
    client.close()
    with come_back(broker, "publisher") as client:
        client.send(Publish(b"t", b"once", 2, packet_id=7, dup=True))
        client.expect(Pubrec)
        client.send(Pubrel(7))
        client.expect(Pubcomp)
        broker = run()
    with come_back(broker, "publisher") as client:
        client.send(Publish(b"t", b"another", 2, packet_id=7))
        client.expect(Pubrec)
        with come_back(broker, "away") as away:
            assert payloads(away, 2) == [b"once", b"another"]


def test_an_overdue_id_is_routed_once(tmp_path: Path) -> None:
    """FC-22a: a QoS 2 PUBLISH whose PUBREL is overdue is not routed again after a restart either, until its PUBREL."""
    again = Publish(b"t", b"once", 2, packet_id=7, dup=True)
    with broker_on(tmp_path) as (local, storage):
        stored_client(local, storage, "away", "t")
        publisher = stored_client(local, storage, "publisher")
        say(local, storage, publisher, Publish(b"t", b"once", 2, packet_id=7))
        local.pass_time(301)
        assert publisher.connection.session is not None
        assert publisher.connection.session.inbound.awaiting_rel_len == 0
    with broker_on(tmp_path) as (local, storage):
        publisher = stored_client(local, storage, "publisher")
        assert [packet.encode(5) for packet in say(local, storage, publisher, again)] == [Pubrec(7).encode(5)]
        say(local, storage, publisher, Pubrel(7), Publish(b"t", b"another", 2, packet_id=7, dup=True))
        came = [
            packet.payload
            for packet in say(local, storage, local.client(), Connect("away", False, 0, properties=KEPT, version=5))
            if isinstance(packet, Publish)
        ]
        assert came == [b"once", b"another"]


def test_an_overdue_id_that_is_reused(tmp_path: Path) -> None:
    """FC-22a: an id used again without DUP, though refused, is after a restart that of the next PUBLISH (FC-27)."""
    rules = {"rules": [{"permit": "deny", "topics": ["denied"]}]}
    with broker_on(tmp_path, authorization=rules) as (local, storage):
        publisher = stored_client(local, storage, "publisher")
        say(local, storage, publisher, Publish(b"t", b"given up", 2, packet_id=7))
        local.pass_time(301)
        say(local, storage, publisher, Publish(b"denied", b"", 2, packet_id=7))
    with broker_on(tmp_path) as (local, storage):
        subscriber = stored_client(local, storage, "subscriber", "t")
        publisher = stored_client(local, storage, "publisher")
        say(local, storage, publisher, Publish(b"t", b"next", 2, packet_id=7))
        assert [each.payload for each in subscriber.received() if isinstance(each, Publish)] == [b"next"]


def test_subscriptions(run: Restart) -> None:
    """Subscriptions are restored with options and identifiers; ended ones are not."""
    broker = run()
    with WireClient(broker.address(), 5) as client:
        client.connect("away", clean_start=False, properties=KEPT)
        client.subscribe("ended", qos=1)
        wanted = Subscription("own/+", 1, no_local=True, retain_as_published=True)
        client.send(Subscribe(9, [wanted], {props.SUBSCRIPTION_IDENTIFIER: 77}))
        client.receive()
        client.unsubscribe("ended")
    broker = run()
    with come_back(broker, "away") as client, connected(broker.address(), 5) as other:
        client.publish("own/a", b"mine", 1)
        other.publish("ended", b"", 1)
        other.publish("own/b", b"theirs", 1, retain=True)
        message = client.receive_message()
        assert (message.payload, message.retain) == (b"theirs", True)
        assert message.properties == {props.SUBSCRIPTION_IDENTIFIER: [77]}


def test_retained(run: Restart) -> None:
    """The last retained message of each topic is restored, of any QoS; cleared ones are not."""
    broker = run()
    with connected(broker.address(), 5) as client:
        for payload in (b"old", b"new"):
            client.publish("r/1", payload, 1, retain=True)
        client.publish("r/2", b"cleared", 1, retain=True)
        client.publish("r/2", b"", 1, retain=True)
        client.publish("r/0", b"QoS 0", 0, retain=True)
        client.publish("last", b"x", 1, retain=True)
    with connected(run().address(), 5) as client:
        client.subscribe("r/#", qos=1)
        came = sorted((client.receive_message() for _ in range(2)), key=lambda publish: publish.topic)
        assert [(each.topic, each.payload, each.retain) for each in came] == [
            (b"r/0", b"QoS 0", True),
            (b"r/1", b"new", True),
        ]
        client.expect_nothing_more()


def test_retained_messages_that_are_still_owed(run: Restart) -> None:
    """FC-6: a crash in the middle of the retained messages for a subscription loses none, and sends none anew."""
    count = 1_500
    broker = run()
    with connected(broker.address(), 5) as publisher:
        publisher.send(*[Publish(b"r/%d" % number, b"x", 1, True, None, number + 1) for number in range(count)])
        for _ in range(count):
            publisher.expect(Puback)
    client = WireClient(broker.address(), 5)
    client.connect("away", clean_start=False, properties=KEPT)
    client.subscribe("r/#", qos=1)
    came: set[bytes] = set()
    for _ in range(100):
        message = client.expect(Publish)
        came.add(message.topic)
        client.send(Puback(message.packet_id))
    client.send(Subscribe(9, [Subscription("other", 1)]))
    while isinstance(packet := client.receive(), Publish):
        came.add(packet.topic)
    assert isinstance(packet, Suback)  # what has come before is on disk
    assert len(came) < count
    broker = run(signal.SIGKILL)
    client.close()
    with come_back(broker, "away") as client:
        on_disk = frozenset(came)
        while len(came) < count:
            message = client.expect(Publish)
            assert message.topic not in on_disk or message.dup
            came.add(message.topic)
            client.send(Puback(message.packet_id))
        client.expect_nothing_more()
        client.subscribe("another")  # its SUBACK has waited for the disk, and with it all that was before
    with come_back(run(), "away") as client:
        client.expect_nothing_more()


def test_what_has_expired_while_the_broker_was_down(run: Restart) -> None:
    """Sessions and messages expire while the broker is down, by the time of day."""
    broker = run()
    with WireClient(broker.address(), 5) as client:
        client.connect("short", clean_start=False, properties={props.SESSION_EXPIRY_INTERVAL: 1})
        client.disconnect()
    leave(broker, "away", "t")
    with connected(broker.address(), 5) as publisher:
        publisher.publish("t", b"short", 1, properties={props.MESSAGE_EXPIRY_INTERVAL: 1})
        publisher.publish("t", b"long", 1, properties={props.MESSAGE_EXPIRY_INTERVAL: 100})
    published = time.time()
    broker.ask_to_end(signal.SIGKILL)
    broker.stop()
    wait_until(lambda: time.time() > published + 1.1, "a second has passed")
    broker = run()
    with come_back(broker, "away") as client:
        assert payloads(client, 1) == [b"long"]
    with WireClient(broker.address(), 5) as client:
        assert not client.connect("short", clean_start=False).session_present


def test_shared_subscription(run: Restart) -> None:
    """The queue of a group with a kept member is restored, each message for one member."""
    broker = run()
    for name in ("one", "two"):
        leave(broker, name, "$share/group/t")
    with connected(broker.address(), 5) as publisher:
        for number in range(20):
            publisher.publish("t", b"%d" % number, 1 + number % 2)
    broker = run()
    with come_back(broker, "one") as one:
        assert payloads(one, 20) == [b"%d" % number for number in range(20)]
    broker = run()
    with come_back(broker, "two") as two:
        two.expect_nothing_more()


def test_delayed_will(run: Restart) -> None:
    """The will of a connected client, and a delayed will that waits, are published after the restart."""
    broker = run()
    properties: Properties = {props.WILL_DELAY_INTERVAL: 1}
    with WireClient(broker.address(), 5) as client:
        client.connect("one", clean_start=False, properties=KEPT, will=Will(b"w/one", b"1", 1, False, properties))
    online = WireClient(broker.address(), 5)
    online.connect("two", clean_start=False, properties=KEPT, will=Will(b"w/two", b"2", 1, False, properties))
    with WireClient(broker.address(), 5) as client:
        client.connect("polite", clean_start=False, properties=KEPT, will=Will(b"w/no", b"", 1, False, properties))
        client.disconnect()
    leave(broker, "away", "w/#")
    broker = run()
    online.close()
    with come_back(broker, "away") as client:
        client.timeout = 20.0  # seconds: after a crash wills wait for their clients (FC-27)
        assert sorted(payloads(client, 2)) == [b"1", b"2"]


def test_sessions_that_end_write_nothing(run: Restart, tmp_path: Path) -> None:
    """Clients without a kept session, and what is published to them, write nothing to the disk."""
    broker = run()
    with connected(broker.address(), 5) as subscriber, connected(broker.address(), 4) as publisher:
        subscriber.subscribe("t", qos=2)
        for number in range(10):
            publisher.publish("t", b"%d" % number, number % 3)
            subscriber.receive_message()
    broker.ask_to_end()
    assert broker.stop() == 0
    segments = Segments(tmp_path / "journal")
    assert list(segments.frames()) == []
    segments.close()


def test_a_session_that_has_ended_is_gone(run: Restart) -> None:
    """A clean start, and an expiry of zero, remove a kept session from the disk."""
    broker = run()
    leave(broker, "cleaned", "t")
    leave(broker, "zero", "t")
    with come_back(broker, "zero") as client:
        client.disconnect(properties={props.SESSION_EXPIRY_INTERVAL: 0})
    leave(broker, "other", "other")  # its SUBACK has waited for the disk, and with it all that was before
    with WireClient(broker.address(), 5) as client:
        assert not client.connect("cleaned").session_present
    broker = run()
    for name in ("cleaned", "zero"):
        with WireClient(broker.address(), 5) as client:
            assert not client.connect(name, clean_start=False).session_present


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_full_queue_tells_after_a_restart(start: Start, tmp_path: Path, how: signal.Signals) -> None:
    """FC-34: a client that is not back since the restart still stops its publishers within the grace."""
    sections: dict[str, Any] = {
        "persistence": {"directory": str(tmp_path / "journal")},
        "session": {"max_mqueue_len": 3, "mqueue_overflow": "reject", "overflow_offline_grace": "1h"},
    }
    broker = start(sections=sections)
    leave(broker, "away", "t")
    broker.ask_to_end(how)
    broker.stop()
    broker = start(sections=sections)
    with connected(broker.address(), 5) as publisher:
        assert [publisher.publish("t", b"%d" % number, 1) for number in range(5)] == [0, 0, 0, 0x97, 0x97]
    with come_back(broker, "away") as client:
        assert payloads(client, 3) == [b"0", b"1", b"2"]
