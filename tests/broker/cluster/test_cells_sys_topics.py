"""Topics that a broker with several cells publishes itself: `$SYS` is about the host, and others reach all cells."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.auth.bridge_state import state_topic
from protocol.connack import Connack
from protocol.connect import Connect
from protocol.publish import Publish
from protocol.suback import Suback
from protocol.subscribe import Subscribe, Subscription
from tests.support.broker.cells import at_home, client_of, kill_cell, start_cells
from tests.support.broker.restarting import leave
from tests.support.process import BrokerProcess
from tests.support.wire import WireClient

CELLS = (1, 2)
OWN = "$SYS/broker/"
SENT = 20


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """Two cells that update `$SYS` often, and tell of drops."""
    sections = {
        "mqtt": {"sys_interval": "100ms"},
        "session": {"max_mqueue_len": 1},
        "drop_events": {"topic": "$SYS/broker/dropped/{client_id}"},
    }
    with start_cells(tmp_path, sections=sections) as broker:
        yield broker


Came = dict[str, list[str]]
"""What has come, by topic."""


def note(came: Came, message: Publish) -> None:
    """One more message has come."""
    came.setdefault(message.topic.decode(), []).append(message.payload.decode())


def subscribe(client: WireClient, *filters: str) -> Came:
    """Subscribe at QoS 0; returns what has come before SUBACK, which waits for the other cell."""
    client.send(Subscribe(1, [Subscription(each, 0) for each in filters]))
    came: Came = {}
    while not isinstance(packet := client.receive(), Suback):
        assert isinstance(packet, Publish)
        note(came, packet)
    return came


def wait_for(client: WireClient, values: dict[str, str], came: Came) -> None:
    """Receive until the last values are these."""
    while any(came.get(topic, [""])[-1] != value for topic, value in values.items()):
        note(came, client.receive_message())


@pytest.mark.parametrize("cell", CELLS)
def test_sys_topics_are_sums_of_the_host(broker: BrokerProcess, cell: int) -> None:
    """Each client is counted once, and each message once although it crosses; links do not count."""
    with (
        client_of(broker, 3 - cell, "subscriber") as subscriber,
        client_of(broker, cell, "publisher") as publisher,
        client_of(broker, cell, "watcher") as watcher,
    ):
        subscriber.subscribe("t", qos=1)
        for _ in range(SENT):
            publisher.publish("t", b"12345", 1)
        came = subscribe(watcher, "$SYS/broker/+/#", "$SYS/brokers/+/clients/connected")
        own = {f"$SYS/brokers/test.{each}/clients/connected": str(count) for each, count in ((cell, 2), (3 - cell, 1))}
        sums = {
            "clients/connected": "3",
            "clients/total": "3",
            "clients/maximum": "3",
            "subscriptions/count": "3",
            "publish/messages/received": str(SENT),
            "publish/bytes/received": str(5 * SENT),
        }
        wait_for(watcher, own | {OWN + name: value for name, value in sums.items()}, came)
        received = [int(each) for each in came[OWN + "publish/messages/received"]]
        assert received == sorted(received)


@pytest.mark.parametrize("cell", CELLS)
def test_each_value_comes_once(broker: BrokerProcess, cell: int) -> None:
    """A subscriber gets one series of values, not one of each cell, although others subscribe elsewhere."""
    with client_of(broker, 3 - cell, "other") as other, client_of(broker, cell, "watcher") as watcher:
        subscribe(other, "$SYS/#")
        came = subscribe(watcher, OWN + "uptime")
        while len(came.get(OWN + "uptime", ())) < 4:
            note(came, watcher.receive_message())
        uptimes = [int(each.split()[0]) for each in came[OWN + "uptime"]]
        assert uptimes == list(range(uptimes[0], uptimes[0] + len(uptimes)))


def test_a_killed_cell_takes_no_counts_away(broker: BrokerProcess) -> None:
    """What its clients had published stays in the sums; its clients do not."""
    with client_of(broker, 2, "watcher") as watcher:
        with client_of(broker, 1, "publisher") as publisher:
            for _ in range(SENT):
                publisher.publish("t", b"", 1)
            came = subscribe(watcher, OWN + "publish/messages/received", OWN + "clients/connected")
            wait_for(watcher, {OWN + "publish/messages/received": str(SENT), OWN + "clients/connected": "2"}, came)
            kill_cell(broker, 0)
        came.clear()
        wait_for(watcher, {OWN + "clients/connected": "1"}, came)
        assert set(came.get(OWN + "publish/messages/received", [])) <= {str(SENT)}
        with client_of(broker, 1, "again") as again:
            again.publish("t", b"", 1)
            wait_for(watcher, {OWN + "publish/messages/received": str(SENT + 1)}, came)


@pytest.mark.parametrize("cell", CELLS)
def test_drop_events_reach_all_cells(broker: BrokerProcess, cell: int) -> None:
    """FC-35: whichever cell drops a delivery, subscribers at both are told once."""
    loser = next(at_home(cell, name="loser"))
    leave(broker, loser, "lost")
    watchers = [client_of(broker, each, "watcher") for each in CELLS]
    for watcher in watchers:
        watcher.subscribe("$SYS/broker/dropped/#", qos=1)
    with client_of(broker, 1, "publisher") as publisher:
        for number in range(3):
            publisher.publish("lost", b"%d" % number, 1)
    for watcher in watchers:
        for _ in range(2):
            event = watcher.receive_message()
            assert event.topic.decode() == f"$SYS/broker/dropped/{loser}"
        watcher.expect_nothing_more()
        watcher.close()


def test_the_state_of_a_bridge_reaches_all_cells(broker: BrokerProcess) -> None:
    """It is retained at both, as a client of either sees it."""
    bridge = next(at_home(1, name="bridge"))
    topic = state_topic(bridge).decode()
    with client_of(broker, 2, "watcher") as watcher, WireClient(broker.address(), 4) as client:
        watcher.subscribe(topic, qos=1)
        client.send(Connect(bridge, version=4, bridge=True))
        client.expect(Connack)
        client.publish(topic, b"1", 1, retain=True)
        assert watcher.receive_message().payload == b"1"
        for cell in CELLS:
            with client_of(broker, cell, "late") as late:
                late.send(Subscribe(1, [Subscription(topic, 1)]))
                packet = late.receive()
                message = late.receive_message() if isinstance(packet, Suback) else packet
                assert isinstance(message, Publish)
                assert (message.payload, message.retain) == (b"1", True)
