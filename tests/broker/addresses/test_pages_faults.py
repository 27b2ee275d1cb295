"""FC-26: addresses that page, and what can go wrong: brokers that are killed, disks that are full, broken or silent."""

import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from broker.storage.found import names
from broker.storage.frame import SECTOR
from protocol import properties as props
from protocol.acknowledgements import Puback
from protocol.connect import Connect
from protocol.properties import Properties
from protocol.publish import Publish
from protocol.subscribe import Subscribe as SubscribePacket
from protocol.subscribe import Subscription
from tests.broker.conftest import Start
from tests.support.broker.events import wait_for_event
from tests.support.broker.paged import (
    TOPIC,
    Subscribe,
    are_gone,
    fill,
    number_of,
    paging_broker,
    payload,
    publish,
    sections,
)
from tests.support.broker.segmented import overwrite
from tests.support.broker.stored import all_read, broker_on, say
from tests.support.process import BrokerProcess
from tests.support.waiting import wait_until
from tests.support.wire import WireClient, connected

pytestmark = pytest.mark.once

STUCK_DISK = """
import threading
import broker.persistence, broker.storage.disk_thread
from broker.storage.storage import Storage
broker.storage.disk_thread.SLOW = broker.persistence.CLOSE_TIMEOUT = 0.3
append = Storage._append
def late(self, first, frames):
    if any(b"please hang" in piece for pieces in frames for piece in pieces):
        threading.Event().wait()
    return append(self, first, frames)
Storage._append = late
from broker.cli.main import main
main()
"""
"""A broker whose disk never finishes writing a certain message."""

KEPT: Properties = {props.SESSION_EXPIRY_INTERVAL: 3600}


def leave(broker: BrokerProcess, client_id: str, topic_filter: str = "paged/#") -> None:
    """Make a kept session with a subscription, and leave it."""
    with WireClient(broker.address(), 5) as client:
        client.connect(client_id, properties=KEPT)
        client.subscribe(topic_filter, qos=1)


def come_back(broker: BrokerProcess, client_id: str, count: int) -> list[int]:
    """The messages that a kept session gets when its client is back."""
    with WireClient(broker.address(), 5) as client:
        assert client.connect(client_id, clean_start=False, properties=KEPT).session_present
        came: list[int] = []
        while len(came) < count:
            message = client.receive_message()
            came.append(number_of(message))
        client.expect_nothing_more()
        return came


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_restart(start: Start, directory: Path, how: signal.Signals) -> None:
    """FC-27: what is paged survives the process, and is delivered once and in order, before what comes later."""
    with paging_broker(start, directory) as broker:
        leave(broker, "kept")
        fill(broker.address(), directory)
        broker.ask_to_end(how)
        broker.stop()
    broker = paging_broker(start, directory)
    with connected(broker.address(), 5) as publisher:
        publish(publisher, range(100, 120), 1)
    assert come_back(broker, "kept", 120) == list(range(120))
    wait_until(lambda: are_gone(directory), "no page")


def test_restart_with_other_rules(start: Start, directory: Path) -> None:
    """FC-26: if the topic has no limit any more, or another policy, its pages are delivered nevertheless, in order."""
    for name, rules in (("blocks", {"full_policy": "block"}), ("no limit", {"match": "other"})):
        with paging_broker(start, directory) as broker:
            leave(broker, name)
            fill(broker.address(), directory)
            broker.ask_to_end(signal.SIGKILL)
            broker.stop()
        with paging_broker(start, directory, **rules) as broker:
            with connected(broker.address(), 5) as publisher:
                packets = [Publish(TOPIC.encode(), payload(number), 1, packet_id=number) for number in range(100, 120)]
                publisher.send(*packets)
                assert come_back(broker, name, 120) == list(range(120))
                for packet in packets:
                    assert publisher.expect(Puback).packet_id == packet.packet_id
            broker.ask_to_end()
            broker.stop()
        assert are_gone(directory)


def test_expiry_while_the_broker_is_down(start: Start, directory: Path) -> None:
    """FC-26, FC-27: a paged message expires by the time of day."""
    with paging_broker(start, directory) as broker:
        leave(broker, "kept")
        fill(broker.address(), directory)
        with connected(broker.address(), 5) as publisher:
            publish(publisher, [100, 101], 1, properties={props.MESSAGE_EXPIRY_INTERVAL: 1})
            publish(publisher, [102], 1, properties={props.MESSAGE_EXPIRY_INTERVAL: 1000})
        published = time.monotonic()
        broker.ask_to_end(signal.SIGKILL)
        broker.stop()
    wait_until(lambda: time.monotonic() > published + 1.1, "time to pass")
    with paging_broker(start, directory) as broker:
        assert come_back(broker, "kept", 101) == [*range(100), 102]


def test_a_page_that_is_gone(start: Start, directory: Path, subscribe: Subscribe) -> None:
    """FC-29: if a page cannot be read, the broker says so and ends: nothing is passed over."""
    broker = paging_broker(start, directory)
    subscriber = subscribe(broker.address(), 5, 1)
    fill(broker.address(), directory)
    for path in names(directory):
        overwrite(path, SECTOR, bytes(path.stat().st_size - SECTOR))
    with pytest.raises(ConnectionError):
        subscriber.take(100)
    (failed,) = wait_for_event(broker, "journal_failed")
    assert "a message is not where it was written" in failed["detail"]
    assert broker.stop() == 74


def send_for_ever(client: WireClient) -> None:
    """Publish until the broker reads no more."""
    while True:
        client.send(Publish(TOPIC.encode(), bytes(60_000), 0))


def test_a_disk_that_hangs(start: Start, directory: Path, subscribe: Subscribe) -> None:
    """FC-26: while the disk is silent its publishers wait, held back, others do not notice, and the broker can stop."""
    command = (sys.executable, "-c", STUCK_DISK)
    with start(sections=sections(directory), command=command) as broker:
        subscribe(broker.address(), 5, 1)
        with (
            connected(broker.address(), 5) as publisher,
            connected(broker.address(), 5) as other,
            connected(broker.address(), 4) as blocked,
        ):
            publish(publisher, range(15), 1)
            publisher.send(Publish(TOPIC.encode(), b"please hang" + bytes(9000), 1, packet_id=1))
            before = broker.rss()
            blocked.socket.settimeout(0.5)
            with pytest.raises(TimeoutError):
                send_for_ever(blocked)
            assert broker.rss() - before < 24 * 1024 * 1024
            wait_for_event(broker, "disk_slow")
            other.subscribe("not/paged")
            other.publish("not/paged", b"x")
            assert other.receive_message().payload == b"x"
            publisher.timeout = 0.5
            with pytest.raises(TimeoutError):
                publisher.receive()
            assert broker.stop() == 74
        wait_for_event(broker, "journal_lost")


def test_restart_with_fewer_topic_levels(tmp_path: Path) -> None:
    """What is paged on a topic with more levels than a restart accepts is delivered all the same, and nothing fails."""
    own: dict[str, Any] = {
        "addresses": [{"match": "#", "max_size_bytes": 100, "full_policy": "page"}],
        "persistence": {"directory": str(tmp_path)},
    }
    with broker_on(tmp_path, **own) as (local, storage):
        away, sender = local.client(), local.client()
        subscribe = SubscribePacket(1, [Subscription("#", 1)])
        say(local, storage, away, Connect("away", False, 0, properties=KEPT, version=5), subscribe)
        away.drop()
        publish = Publish(b"a/b/c", bytes(60), 1, packet_id=1)
        say(local, storage, sender, Connect("sender", True, 0, version=5), publish, publish, publish)
        assert local.broker.addresses.paged_total == 2
    with broker_on(tmp_path, mqtt={"max_topic_levels": 2}, **own) as (local, storage):
        back, came = local.client(), 0
        packets = say(local, storage, back, Connect("away", False, 0, properties=KEPT, version=5))
        for _ in range(20):
            found = [packet for packet in packets if isinstance(packet, Publish)]
            came += len(found)
            packets = say(local, storage, back, *[Puback(packet.packet_id) for packet in found]) if found else []
            local.pass_time(1)
            all_read(local, storage)
            packets += back.received()
        assert came == 3
