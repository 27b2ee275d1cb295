"""Clients that acknowledge deliveries which they have not read: the slot is freed, and memory stays bounded."""

from pathlib import Path
from typing import Any

import pytest

from protocol.acknowledgements import Puback
from protocol.ping import Pingreq
from protocol.publish import Publish, encode_publish
from tests.broker.conftest import Start
from tests.support.broker.collecting import collect
from tests.support.broker.local import LocalBroker, LocalClient
from tests.support.broker.metrics import of_client, read_rows
from tests.support.brokers import LOOPS, Listener
from tests.support.certificates import Certificates
from tests.support.wire import WireClient, connected

MIB = 1024 * 1024
SIZE = 100_000
"""Bytes of each message here."""
BATCH = 20
"""Messages that are published before they are acknowledged; the window holds 32."""
TOLERATED_GROWTH = 20 * MIB
"""Two windows of such messages, what is on its way, and some slack; ten times as much is sent."""


def guesses(first: int, last: int) -> bytes:
    """PUBACKs for these packet ids, in one piece."""
    return b"".join(Puback(packet_id).encode(4) for packet_id in range(first, last + 1))


def publishes(topic: bytes, size: int, count: int) -> bytes:
    """QoS 1 PUBLISHes in one piece."""
    return b"".join(
        encode_publish(topic, bytes(size), 1, False, False, number, None, 4) for number in range(1, count + 1)
    )


@pytest.mark.parametrize("listener", ["tcp", "tls"])
@pytest.mark.parametrize("loop", LOOPS)
def test_guessing_costs_bounded_memory(start: Start, certificates: Certificates, listener: str, loop: str) -> None:
    """FC-1: a client that guesses packet ids and reads nothing is not read, before its deliveries pile up."""
    listeners = (Listener(), Listener("tls", certificates))
    broker = start(listeners, sections={"session": {"max_mqueue_len": 10}}, command=LOOPS[loop])
    tls = certificates.client_context(with_certificate=False) if listener == "tls" else None
    with (
        WireClient(broker.address(listener), 4, tls=tls, receive_buffer=4096) as deaf,
        connected(broker.address(), 4) as publisher,
    ):
        deaf.connect("deaf")
        deaf.subscribe("deaf", qos=1)
        before = broker.rss()
        for number in range(1, 101):
            publisher.send(publishes(b"deaf", SIZE, BATCH))
            for _ in range(BATCH):
                publisher.expect(Puback)
            publisher.expect_nothing_more()  # what was routed has been written, as far as the window goes
            deaf.send(guesses(max(1, BATCH * (number - 3)), BATCH * number))
        assert broker.rss() - before < TOLERATED_GROWTH
        deaf.reset()


def held_back(local: LocalBroker, *last: Publish) -> LocalClient:
    """A client that reads nothing, has acknowledged what it has guessed, and has said `last` behind that."""
    deaf, publisher = local.client(4), local.client(4)
    deaf.connect("deaf")
    deaf.subscribe("deaf", 1)
    publisher.connect("publisher")
    deaf.socket.pause_writing()
    publisher.send(publishes(b"deaf", 10_000, 500))
    deaf.send(guesses(1, 500) * 50, *last)
    assert not deaf.transport.reading
    return deaf


def test_guesses_in_one_piece() -> None:
    """Guesses in a chunk that is read already wait too, and count when the client has read what waits for it."""
    with LocalBroker() as local:
        deaf = held_back(local)
        assert deaf.transport.get_write_buffer_size() < MIB
        assert 32 < len(deaf.received()) < 100
        local.run(deaf.socket.resume_writing)
        for _ in range(50):
            local.run(lambda: None)
        assert len(deaf.received()) > 100
        assert deaf.transport.reading


def test_end_of_who_guesses() -> None:
    """A client that ends its connection while it is not read is gone, and its earlier packets have counted."""
    with LocalBroker() as local:
        reader = local.client(4)
        reader.connect("reader")
        reader.subscribe("last")
        deaf = held_back(local, Publish(b"last", b"words"))
        local.run(deaf.socket.eof_received)
        assert deaf.gone
        assert [packet.payload for packet in reader.received() if isinstance(packet, Publish)] == [b"words"]


@pytest.mark.parametrize("version", [4, 5])
def test_slow_but_honest(start: Start, tmp_path: Path, version: int) -> None:
    """A client that acknowledges what it reads is read, even with a window full of large messages."""
    sections: dict[str, Any] = {"metrics": {"directory": str(tmp_path / "metrics")}}
    sections["session"] = {"max_mqueue_bytes": "infinity"}
    with start(sections=sections) as broker:
        with (
            WireClient(broker.address(), version, receive_buffer=4096, timeout=20) as slow,
            connected(broker.address(), 4) as publisher,
        ):
            slow.connect("slow")
            slow.subscribe("slow", qos=2)
            for number in range(80):
                publisher.publish("slow", bytes(MIB - 100), number % 2 + 1)
            assert len(collect(slow)) == 80
        assert broker.stop() == 0
        rows = of_client(read_rows(tmp_path / "metrics"), "slow")
        assert sum(row["congested_us"] for row in rows) > 0
        assert sum(row["reading_paused_us"] for row in rows) == 0


def test_held_back_is_not_silent() -> None:
    """[MQTT-3.1.2-22]: the keep-alive does not run while a client is not read, and begins anew afterwards."""
    with LocalBroker() as local:
        client = local.client(4)
        client.connect("deaf", keep_alive=1)
        client.socket.pause_writing()
        while client.transport.reading:
            client.send(*[Pingreq()] * 1000)
        local.pass_time(60)
        assert not client.gone
        local.run(client.socket.resume_writing)
        assert client.transport.reading
        client.send(Publish(b"t", b"x", 1, packet_id=1))
        local.pass_time(5)
        assert client.gone
