"""Clients that do not read: they are not read either, memory stays bounded, and other clients are not affected."""

import socket
import time

import pytest

from protocol.acknowledgements import Puback
from protocol.disconnect import Disconnect
from protocol.ping import Pingreq, Pingresp
from protocol.publish import Publish, encode_publish
from tests.support.broker.local import LocalBroker
from tests.support.process import Address, BrokerProcess
from tests.support.wire import WireClient, connected

MIB = 1024 * 1024
TOLERATED_GROWTH = 32 * MIB
"""What a broker may take on for one client that reads nothing: its mqueue, transport and sockets, and some slack."""


def publishes(topic: bytes, size: int, qos: int, count: int) -> bytes:
    """PUBLISHes in one piece, packet ids from 1 on."""
    return b"".join(
        encode_publish(topic, bytes(size), qos, False, False, number if qos else 0, None, 4)
        for number in range(1, count + 1)
    )


def test_how_many_answers() -> None:
    """FC-15: 64 KiB of answers may be undrained; with the next one reading is paused."""
    with LocalBroker() as local:
        client = local.client(4)
        client.connect("deaf")
        client.socket.pause_writing()
        for _ in range(128):
            client.send(*[Pingreq()] * 256)
        assert client.transport.reading
        assert len(client.received()) == 128 * 256
        client.send(Pingreq())
        assert not client.transport.reading


@pytest.mark.parametrize("packet", [Pingreq(), Publish(b"t", b"x", 1, packet_id=1)])
def test_who_reads_no_answers_is_not_read(packet: Pingreq | Publish) -> None:
    """FC-15: acknowledgements are never dropped; a client with too many unread ones is not read until it reads."""
    with LocalBroker() as local:
        client = local.client(4)
        client.connect("deaf")
        client.socket.pause_writing()
        sent = 0
        while client.transport.reading and sent < 100_000:
            client.send(*[packet] * 1000)
            sent += 1000
        assert not client.transport.reading
        answers = b"".join(client.transport.written)
        assert 60_000 < len(answers) < 80_000
        local.run(client.socket.resume_writing)
        assert client.transport.reading
        assert len(client.received()) == sent


def test_waits_until_the_transport_resumes() -> None:
    """FC-3, FC-4: QoS 0 waits while the send path is congested, and is sent when the transport resumes."""
    with LocalBroker() as local:
        client, publisher = local.client(4), local.client(4)
        client.connect("slow")
        client.subscribe("t")
        publisher.connect("fast")
        client.socket.pause_writing()
        publisher.send(Publish(b"t", b"x"))
        assert client.received() == []
        local.run(client.socket.resume_writing)
        assert client.expect(Publish).payload == b"x"


def test_paused_reading_is_counted(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The time for which a client was not read is in its metrics, also if it disconnects meanwhile."""
    with LocalBroker() as local:
        client = local.client(4)
        client.connect("deaf", clean_start=False)
        client.socket.pause_writing()
        while client.transport.reading:
            client.send(*[Pingreq()] * 1000)
        session = local.broker.clients.by_id["deaf"].session
        client.drop()
        counters = session.take_counters(0)
        assert counters.uncommon.reading_paused_us > 0
        assert counters.uncommon.congested_us > 0


def test_publisher_that_reads_nothing(broker: BrokerProcess, address: Address) -> None:
    """A publisher that does not read its acknowledgements is blocked, and gets all of them when it reads."""
    batch = publishes(b"unread", 10, 1, 1000)
    with WireClient(address, 4, receive_buffer=4096) as deaf, connected(address, 5) as other:
        deaf.connect()
        before = broker.rss()
        deaf.socket.setblocking(False)
        sent, rest = 0, batch
        deadline = time.monotonic() + 30
        blocked_since = 0.0
        while not blocked_since or time.monotonic() < blocked_since + 0.3:
            assert time.monotonic() < deadline, "it was never held back"
            try:
                written = deaf.socket.send(rest)
                sent, rest, blocked_since = sent + written, rest[written:] or batch, 0.0
            except BlockingIOError:
                blocked_since = blocked_since or time.monotonic()
                other.publish("other", b"x", 1)
        assert broker.rss() - before < TOLERATED_GROWTH
        whole = sent // len(batch) * 1000 + (sent % len(batch)) // (len(batch) // 1000)
        deaf.socket.setblocking(True)
        for number in range(whole):
            assert deaf.expect(Puback).packet_id == number % 1000 + 1


def test_subscriber_that_reads_nothing(broker: BrokerProcess, address: Address) -> None:
    """The broker keeps a bounded part of what is published to a client that does not read; others get all."""
    batch = publishes(b"flood", 10_000, 0, 100)
    with (
        WireClient(address, 5, receive_buffer=4096) as deaf,
        connected(address, 5) as reader,
        connected(address, 4) as publisher,
    ):
        deaf.connect("deaf")
        deaf.subscribe("flood")
        reader.subscribe("flood")
        before = broker.rss()
        received = 0
        for _ in range(50):
            publisher.send(batch)
            for _ in range(100):
                received += reader.receive_message().size
        assert received == 50 * 100 * 10_000
        assert broker.rss() - before < TOLERATED_GROWTH
        publisher.publish("flood", b"last", 1)
        sizes = [len(deaf.receive_message().payload)]
        while sizes[-1] != len(b"last"):
            sizes.append(len(deaf.receive_message().payload))
        assert set(sizes[:-1]) == {10_000}
        assert len(sizes) < 5000


def test_half_a_packet_costs_its_bytes(broker: BrokerProcess, address: Address) -> None:
    """A packet whose announced bytes are not sent takes no memory for them."""
    before = broker.rss()
    clients = [connected(address, 4) for _ in range(50)]
    for client in clients:
        client.send(b"\x30\xff\xff\x3e")  # a PUBLISH of a megabyte
    clients[0].socket.settimeout(0)
    with connected(address, 5) as other:
        other.expect_nothing_more()
    assert broker.rss() - before < TOLERATED_GROWTH
    for client in clients:
        client.reset()


def test_take_over_of_a_stuck_client(address: Address) -> None:
    """A client that does not read can be taken over."""
    with WireClient(address, 5, receive_buffer=4096) as stuck, connected(address, 4) as publisher:
        stuck.connect("stuck")
        stuck.subscribe("stuck", qos=1)
        for _ in range(20):
            publisher.publish("stuck", bytes(500_000), 1)
        with connected(address, 5, client_id="stuck") as next_one:
            next_one.expect_nothing_more()
            next_one.subscribe("stuck")
            publisher.publish("stuck", b"x", 1)
            assert next_one.receive_message().payload == b"x"
        last = stuck.expect_close()
        assert last is None or isinstance(last, Disconnect | Publish | Pingresp)


def test_reset_in_the_middle(broker: BrokerProcess, address: Address) -> None:
    """Connections that break while much is sent to them cause no traceback."""
    with connected(address, 4) as publisher:
        for _ in range(5):
            with WireClient(address, 4, receive_buffer=4096) as fragile:
                fragile.connect()
                fragile.subscribe("fragile")
                publisher.send(publishes(b"fragile", 50_000, 0, 20))
                publisher.expect_nothing_more()
                fragile.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        publisher.publish("fragile", b"x", 1)
    broker.assert_healthy()
