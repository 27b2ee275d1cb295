"""Brokers with several workers, by their clients: what is published at one cell comes to the clients of all."""

import itertools
import os
import signal
from pathlib import Path

import pytest

from protocol import properties as props
from protocol import reason_codes
from protocol.acknowledgements import Puback
from protocol.connack import Connack
from protocol.connect import Connect, Will
from protocol.disconnect import Disconnect
from protocol.properties import Properties
from protocol.publish import Publish
from protocol.suback import Suback
from protocol.subscribe import Subscribe, Subscription
from tests.support.broker.cells import at_home, client_of, events, kill_cell, processes, start_cells
from tests.support.broker.restarting import KEPT, come_back, leave, payloads
from tests.support.process import BrokerProcess
from tests.support.waiting import wait_until
from tests.support.wire import WireClient

BOTH = (1, 2)


@pytest.mark.parametrize("version", [4, 5])
def test_each_connection_reaches_the_home_of_its_client(broker: BrokerProcess, version: int) -> None:
    """Whichever cell accepts it: 20 connections of each client take over the one before, and each is served."""
    for cell in BOTH:
        client_id = next(at_home(cell, name=f"over{version}"))
        before: WireClient | None = None
        for _ in range(20):
            client = WireClient(broker.address(), version)
            client.connect(client_id)
            if before is not None:
                before.expect_close()
                before.close()
            client.expect_nothing_more()
            before = client
        assert before is not None
        before.close()


def test_what_follows_connect_at_once_is_not_lost(broker: BrokerProcess) -> None:
    """A client need not wait for CONNACK: its PUBLISHes go with its socket to its home."""
    for client_id in (*itertools.islice(at_home(1, name="early"), 10), *itertools.islice(at_home(2, name="early"), 10)):
        with WireClient(broker.address(), 5) as client:
            publishes = [Publish(b"early", b"x" * 5_000, 1, packet_id=number) for number in range(1, 40)]
            client.send(Connect(client_id, version=5), *publishes)
            client.expect(Connack)
            assert [client.expect(Puback).packet_id for _ in publishes] == list(range(1, 40))


def test_clients_without_an_id_get_one(broker: BrokerProcess) -> None:
    """MQTT 5 tells it in CONNACK, and with it the client comes back to its session."""
    with WireClient(broker.address(), 5) as client:
        client.send(Connect("", version=5, properties=KEPT))
        told = (client.expect(Connack).properties or {})[props.ASSIGNED_CLIENT_IDENTIFIER]
        client.disconnect()
    come_back(broker, str(told)).close()


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_messages_cross_once_and_in_order(broker: BrokerProcess, qos: int) -> None:
    """Subscribers of both cells get what clients of both publish, exact topics and wildcards."""
    subscribers: list[WireClient] = []
    for cell, topic_filter in itertools.product(BOTH, (f"cross{qos}/#", f"cross{qos}/t")):
        client = client_of(broker, cell, f"sub{qos}{len(subscribers)}")
        client.subscribe(topic_filter, qos=qos)
        subscribers.append(client)
    for cell in BOTH:
        with client_of(broker, cell, f"pub{qos}") as publisher:
            for number in range(200):
                publisher.publish(f"cross{qos}/t", b"%d %d" % (cell, number), qos)
    for client in subscribers:
        came = payloads(client, 400)
        for cell in BOTH:
            sent = [b"%d %d" % (cell, number) for number in range(200)]
            assert [each for each in came if each.startswith(b"%d " % cell)] == sent
        client.close()


def test_suback_means_that_messages_of_all_cells_come(broker: BrokerProcess) -> None:
    """CL-1: what is published anywhere after SUBACK arrives, each time."""
    with client_of(broker, 1, "late") as publisher:
        for number in range(50):
            with client_of(broker, 2, f"soon{number}-") as subscriber:
                subscriber.subscribe(f"soon/{number}", qos=1)
                publisher.publish(f"soon/{number}", b"now", 1)
                assert subscriber.expect(Publish).payload == b"now"


def test_a_subscription_of_one_cell_ends_at_the_other(broker: BrokerProcess) -> None:
    """Once no client of a cell has a filter, what is published elsewhere is no longer sent there."""
    with client_of(broker, 1, "ends") as subscriber, client_of(broker, 2, "endp") as publisher:
        subscriber.subscribe("ends", qos=1)
        assert _published(publisher, "ends") == reason_codes.SUCCESS
        subscriber.expect(Publish)
        subscriber.unsubscribe("ends")
        wait_until(lambda: _published(publisher, "ends") == reason_codes.NO_MATCHING_SUBSCRIBERS, "no subscriber")


def _published(client: WireClient, topic: str) -> int:
    client.send(Publish(topic.encode(), b"x", 1, packet_id=7))
    return client.expect(Puback).reason_code


def test_retained_messages_are_at_all_cells(broker: BrokerProcess) -> None:
    """New subscribers of both cells get them, at QoS 0 and 1; a removal is everywhere, too."""
    with client_of(broker, 1, "retain") as publisher:
        for qos in (0, 1):
            publisher.publish(f"retained/{qos}", b"kept", qos, retain=True)
    wait_until(lambda: all(_retained(broker, cell) == [b"kept"] * 2 for cell in BOTH), "both at both cells")
    with client_of(broker, 2, "retain") as publisher:
        for qos in (0, 1):
            publisher.publish(f"retained/{qos}", b"", qos, retain=True)
    wait_until(lambda: all(_retained(broker, cell) == [] for cell in BOTH), "none")


def _retained(broker: BrokerProcess, cell: int) -> list[bytes]:
    """What a new subscriber of this cell gets with RETAIN; others' changes may come before SUBACK."""
    with client_of(broker, cell, "new") as client:
        client.send(Subscribe(1, [Subscription("retained/#", 1), Subscription("end", 1)]))
        found: list[bytes] = []
        while True:
            packet = client.receive()
            if isinstance(packet, Suback):
                client.publish("end", b"end", 0)
            elif isinstance(packet, Publish) and packet.topic == b"end":
                return found
            elif isinstance(packet, Publish) and packet.retain:
                found.append(packet.payload)


def test_a_will_comes_to_clients_of_other_cells(broker: BrokerProcess) -> None:
    """The home of the client that is lost publishes it."""
    with client_of(broker, 2, "heir") as heir:
        heir.subscribe("will", qos=1)
        lost = WireClient(broker.address(), 5)
        lost.send(Connect(next(at_home(1, name="lost")), version=5, will=Will(b"will", b"gone", 1)))
        lost.expect(Connack)
        lost.close()
        assert heir.expect(Publish).payload == b"gone"


def test_properties_cross(broker: BrokerProcess) -> None:
    """Expiry, user properties and the rest are as the publisher gave them; of the link they have nothing."""
    properties: Properties = {
        props.MESSAGE_EXPIRY_INTERVAL: 100,
        props.CONTENT_TYPE: "text",
        props.USER_PROPERTY: [("a", "1"), ("a", "2")],
        props.RESPONSE_TOPIC: "answer",
        props.CORRELATION_DATA: b"\0id",
    }
    with client_of(broker, 1, "has") as subscriber, client_of(broker, 2, "gives") as publisher:
        subscriber.subscribe("properties", qos=2)
        for retain in (False, True):
            publisher.publish("properties", b"x", 1, retain=retain, properties=properties)
            came = dict(subscriber.expect(Publish).properties or {})
            assert came.pop(props.MESSAGE_EXPIRY_INTERVAL) in (99, 100)
            assert came == {key: value for key, value in properties.items() if key != props.MESSAGE_EXPIRY_INTERVAL}


def test_no_local_holds_for_a_client_and_not_for_its_cell(broker: BrokerProcess) -> None:
    """A client with No Local gets what others publish, at its own cell and elsewhere, and never its own."""
    with client_of(broker, 1, "own") as client, client_of(broker, 2, "else") as other:
        client.send(Subscribe(1, [Subscription("no/local", 1, no_local=True)]))
        client.expect(Suback)
        client.publish("no/local", b"mine", 1)
        other.publish("no/local", b"other", 1)
        assert client.expect(Publish).payload == b"other"
        client.expect_nothing_more()


@pytest.mark.parametrize("client_id", ["$cell/1", "$cell/9", "$cell"])
def test_clients_cannot_be_cells(broker: BrokerProcess, client_id: str) -> None:
    """Ids of cells are refused with 0x85: whoever had one would get the messages of others."""
    with WireClient(broker.address(), 5) as client:
        client.send(Connect(client_id, version=5))
        assert client.expect(Connack).reason_code == reason_codes.CLIENT_IDENTIFIER_NOT_VALID


@pytest.mark.parametrize("version", [4, 5])
def test_a_killed_cell_loses_nothing_that_is_acknowledged(journaled: BrokerProcess, version: int) -> None:
    """Cells are killed by turns while messages cross: kept subscribers get all of them, at QoS 2 once, in order."""
    for cell in BOTH:
        leave(journaled, next(at_home(cell, name="kept")), "kill/#")
    sent: dict[int, list[bytes]] = {1: [], 2: []}
    for turn in range(4):
        for cell in BOTH:
            with client_of(journaled, cell, f"killer{turn}", version) as publisher:
                for number in range(50):
                    payload = b"%d %d" % (cell, 100 * turn + number)
                    publisher.publish(f"kill/{cell}", payload, 2)
                    sent[cell].append(payload)
        kill_cell(journaled, turn % 2)
    for cell in BOTH:
        with come_back(journaled, next(at_home(cell, name="kept"))) as client:
            came = payloads(client, 400)
            for publisher_cell in BOTH:
                assert [each for each in came if each.startswith(b"%d " % publisher_cell)] == sent[publisher_cell]


def test_clients_of_other_cells_stay_when_one_is_killed(journaled: BrokerProcess) -> None:
    """A cell that is killed closes its own clients only, and is started again; the log says so."""
    stays, goes = client_of(journaled, 2, "stays"), client_of(journaled, 1, "goes")
    kill_cell(journaled, 0)
    goes.expect_close()
    stays.expect_nothing_more()
    with client_of(journaled, 1, "again") as again:
        again.subscribe("again", qos=1)
        stays.publish("again", b"x", 1)
        assert again.expect(Publish).payload == b"x"
    assert [each["cell"] for each in events(journaled, "cell_ended")] == [1]
    stays.close()
    goes.close()


def test_a_stop_leaves_nothing_on_its_way(tmp_path: Path) -> None:
    """What was acknowledged just before is at the other cell, and comes once after the next start, also at QoS 1."""
    sections = {"persistence": {"directory": str(tmp_path / "journal")}}
    stays = next(at_home(2, name="stays"))
    sent: list[bytes] = []
    for start in range(4):
        with start_cells(tmp_path, sections=sections) as broker:
            if start == 0:
                leave(broker, stays, "stop", qos=1)
            with client_of(broker, 1, "stopper") as publisher:
                publishes = [Publish(b"stop", b"%d %d" % (start, n), 1, packet_id=n + 1) for n in range(100)]
                publisher.send(*publishes)
                for publish in publishes:
                    publisher.expect(Puback)
                    sent.append(publish.payload)
                assert broker.stop() == 0
    with start_cells(tmp_path, sections=sections) as broker, come_back(broker, stays) as client:
        assert payloads(client, len(sent)) == sent


def test_a_retained_message_does_not_come_twice_to_a_new_subscription(tmp_path: Path) -> None:
    """FC-6: what comes while SUBACK waits for another cell is delivered once, with RETAIN; later ones have none."""
    with start_cells(tmp_path) as broker:
        subscriber, publisher = client_of(broker, 1, "once"), client_of(broker, 1, "retains")
        stalled = processes(broker)[1]
        os.kill(stalled, signal.SIGSTOP)
        subscriber.send(Subscribe(1, [Subscription("twice", 1)]))
        subscriber.expect_nothing_more()
        publisher.publish("twice", b"x", 1, retain=True)
        assert subscriber.expect(Publish).retain
        os.kill(stalled, signal.SIGCONT)
        subscriber.expect(Suback)
        subscriber.expect_nothing_more()
        publisher.publish("twice", b"y", 1, retain=True)
        assert not subscriber.expect(Publish).retain
        for each in (subscriber, publisher):
            each.close()


def test_overlapping_subscriptions_give_one_delivery_each(tmp_path: Path) -> None:
    """Also with `overlapping_subscriptions: each` a message crosses once, and no client gets more than at its home."""
    with start_cells(tmp_path, sections={"mqtt": {"overlapping_subscriptions": "each"}}) as broker:
        subscribers = [client_of(broker, cell, "overlap") for cell in BOTH]
        for client in subscribers:
            client.subscribe("overlap/#", "overlap/+", "overlap/t", qos=1)
        with client_of(broker, 2, "publishes") as publisher:
            publisher.publish("overlap/t", b"x", 1)
        for client in subscribers:
            assert payloads(client, 3) == [b"x"] * 3
            client.expect_nothing_more()
            client.close()


@pytest.mark.once
def test_a_stalled_cell_is_not_waited_for_without_end(tmp_path: Path) -> None:
    """CL-1: a SUBSCRIBE that it does not answer ends in DISCONNECT 0x89; other clients are served meanwhile."""
    with start_cells(tmp_path) as broker:
        client, other = client_of(broker, 1, "waits"), client_of(broker, 1, "stays")
        stalled = processes(broker)[1]
        os.kill(stalled, signal.SIGSTOP)
        client.send(Subscribe(1, [Subscription("unknown", 1)]))
        other.expect_nothing_more()
        last = client.expect_close()
        os.kill(stalled, signal.SIGCONT)
        assert isinstance(last, Disconnect)
        assert last.reason_code == reason_codes.SERVER_BUSY
        for each in (client, other):
            each.close()


def test_the_cells_end_with_the_broker(tmp_path: Path) -> None:
    """SIGTERM ends all of them with status 0; kill -9 of the keeper leaves none behind."""
    with start_cells(tmp_path) as broker:
        first = processes(broker)
        assert broker.stop() == 0
    with start_cells(tmp_path) as broker:
        second = processes(broker)
        os.kill(broker.pid, signal.SIGKILL)
        wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in (*first, *second)), "the end of the cells")
