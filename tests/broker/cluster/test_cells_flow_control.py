"""Flow control between cells: publishers are paced and refused for clients, and for links, of other cells."""

import itertools
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from protocol import properties as props
from protocol import reason_codes
from protocol.acknowledgements import Puback
from protocol.properties import Properties
from protocol.publish import Publish
from tests.support.broker.cells import client_of, processes, start_cells
from tests.support.broker.restarting import payloads
from tests.support.process import BrokerProcess
from tests.support.waiting import wait_until

ROOM = 1024 * 1024
"""Bytes that may wait for one other cell."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker with two cells, and small queues."""
    sections = {"session": {"max_mqueue_len": 50}, "cluster": {"workers": 2, "link_queue": ROOM}}
    with start_cells(tmp_path_factory.mktemp("cells"), sections=sections) as broker:
        yield broker


@pytest.mark.parametrize("version", [4, 5])
def test_a_slow_client_paces_a_publisher_of_another_cell(broker: BrokerProcess, version: int) -> None:
    """CL-5, FC-16: its queue has room for 50, and it loses none of 500; others of that cell are not held back."""
    with ExitStack() as stack:
        slow = stack.enter_context(client_of(broker, 1, f"slow{version}"))
        slow.subscribe(f"slow{version}", qos=1)
        fast, other = (stack.enter_context(client_of(broker, 2, f"{name}{version}", version)) for name in "fo")
        sent = [b"%d" % number for number in range(500)]
        topic = f"slow{version}".encode()
        fast.send(*[Publish(topic, payload, 1, packet_id=number) for number, payload in enumerate(sent, 1)])
        came = []
        for count in range(len(sent)):
            came.append(slow.receive_message().payload)
            if count == 50:
                assert other.publish("nobody", b"x", 1) in {0, reason_codes.NO_MATCHING_SUBSCRIBERS}
        assert came == sent
        assert [fast.expect(Puback).packet_id for _ in sent] == list(range(1, 501))


def test_what_3_1_1_and_5_publish_crosses_as_it_is(broker: BrokerProcess) -> None:
    """Publishers of both versions take turns: payloads, QoS and properties arrive at clients of both."""
    with ExitStack() as stack:
        publishers = {version: stack.enter_context(client_of(broker, 2, f"p{version}", version)) for version in (4, 5)}
        subscribers = {version: stack.enter_context(client_of(broker, 1, f"s{version}", version)) for version in (4, 5)}
        for client in subscribers.values():
            client.subscribe("mixed/#", qos=2)
        for number, version, qos in itertools.product(range(4), (4, 5), (0, 1, 2)):
            properties: Properties | None = {props.CONTENT_TYPE: f"{number}"} if version == 5 and number % 2 else None
            payload = b"%d" % number if qos else b"\0" * number
            publishers[version].publish(f"mixed/{version}", payload, qos, properties=properties)
            for client in subscribers.values():
                came = client.receive_message()
                assert (came.topic, came.payload, came.qos) == (b"mixed/%d" % version, payload, qos)
            assert came.properties == properties  # the last client's, which has MQTT 5


def test_a_full_link_refuses_and_loses_nothing(broker: BrokerProcess) -> None:
    """CL-4: while the other cell is stalled a publisher gets 0x97; what was acknowledged comes, and it goes on."""
    with client_of(broker, 2, "full-s") as subscriber, client_of(broker, 1, "full-p") as publisher:
        subscriber.subscribe("full", qos=1)
        stalled = processes(broker)[1]
        os.kill(stalled, signal.SIGSTOP)
        accepted: list[bytes] = []
        try:
            for number in range(50_000):
                payload = b"%06d" % number + bytes(500)
                if publisher.publish("full", payload, 1) == reason_codes.QUOTA_EXCEEDED:
                    break
                accepted.append(payload)
        finally:
            os.kill(stalled, signal.SIGCONT)
        assert ROOM // 506 <= len(accepted) < 50_000
        assert payloads(subscriber, len(accepted)) == accepted
        wait_until(lambda: publisher.publish("full", b"again", 1) == 0, "room")
        assert payloads(subscriber, 1) == [b"again"]


def test_a_full_queue_refuses_nothing_of_other_cells(tmp_path: Path) -> None:
    """FC-34 ends at the cell: what the publisher's cell has acknowledged comes to whoever has room."""
    sections = {"session": {"mqueue_overflow": "reject", "max_mqueue_len": 5, "overflow_patience": "0s"}}
    with (
        start_cells(tmp_path, sections=sections) as broker,
        client_of(broker, 1, "full") as full,
        client_of(broker, 1, "free") as free,
        client_of(broker, 2, "p") as publisher,
    ):
        for client in (full, free):
            client.subscribe("t", qos=1)
        for number in range(60):
            assert publisher.publish("t", b"%d" % number, 1) == 0
            assert free.receive_message().payload == b"%d" % number
        held = [full.expect(Publish) for _ in range(32)]
        for publish in held:
            full.send(Puback(publish.packet_id))
        assert [publish.payload for publish in held] == [b"%d" % number for number in range(32)]
        assert payloads(full, 5)
