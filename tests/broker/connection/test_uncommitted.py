"""FC-27: what a connection writes only after a commit of the journal."""

from hypothesis import given
from hypothesis import strategies as st

from broker.connection.uncommitted import Uncommitted
from protocol import properties as props
from protocol.acknowledgements import Puback, Pubrec
from protocol.connack import Connack
from protocol.connect import Connect
from protocol.disconnect import Disconnect
from protocol.ping import Pingreq, Pingresp
from protocol.publish import Publish
from protocol.subscribe import Subscribe, Subscription
from tests.support.broker.journaled import SlowDisk
from tests.support.broker.local import LocalBroker, LocalClient
from tests.support.waiting import until

STEPS = st.lists(st.tuples(st.integers(0, 3), st.binary(max_size=4)), max_size=20)


@given(STEPS, st.integers(0, 12))
def test_order(steps: list[tuple[int, bytes]], committed: int) -> None:
    """Output keeps its order, up to the first piece whose commit is not done."""
    uncommitted = Uncommitted()
    uncommitted.hold_until(1)
    commit = 1
    expected = b""
    everything = b""
    for later, piece in steps:
        commit += later
        uncommitted.hold_until(commit)
        uncommitted.add([piece], len(piece))
        everything += piece
        if commit <= committed:
            expected += piece
    pieces, deliveries = uncommitted.take(committed)
    taken = b"".join(pieces)
    assert (taken, deliveries) == (expected, len(expected))
    assert uncommitted.bytes == len(everything) - len(taken)
    assert taken + b"".join(uncommitted.take(commit)[0]) == everything
    assert (uncommitted.waits(), uncommitted.bytes) == (False, 0)


def kept_client(local: LocalBroker, disk: SlowDisk, client_id: str) -> LocalClient:
    """A client with a kept session that subscribes to `t`; both are on disk."""
    client = local.client()
    connect = Connect(client_id, True, 0, properties={props.SESSION_EXPIRY_INTERVAL: 60}, version=5)
    client.send(connect, Subscribe(1, [Subscription("t", 1)]))
    commit(local, disk)
    assert isinstance(client.received()[0], Connack)
    return client


def commit(local: LocalBroker, disk: SlowDisk) -> None:
    """Let one more frame be put on disk, and the loop notice it."""
    count = len(disk.frames) + 1
    disk.allow()
    local.complete(until(lambda: local.journal is not None and local.journal.commits.committed == count))
    local.run(lambda: None)


def test_end_of_the_stream() -> None:
    """A client that ends its stream behind a PUBLISH gets its PUBACK, and then the connection is closed."""
    disk = SlowDisk()
    with LocalBroker(journal=disk.journal()) as local:
        client = kept_client(local, disk, "client")
        client.send(Publish(b"t", b"", 1, packet_id=5))
        assert local.run(client.socket.eof_received), "the transport must not close by itself"
        assert client.received() == []
        assert not client.transport.closed
        commit(local, disk)
        assert [type(packet) for packet in client.received()] == [Puback, Publish]
        assert client.transport.closed


def test_what_is_asked_of_a_server_that_lost_its_session() -> None:
    """That its packet ids are forgotten is on disk first: after a restart none of them is a duplicate."""
    disk = SlowDisk()
    with LocalBroker(journal=disk.journal()) as local:
        client = kept_client(local, disk, "client")
        client.send(Publish(b"none", b"", 2, packet_id=5))
        commit(local, disk)
        assert isinstance(client.received()[0], Pubrec)
        inbound = local.broker.clients.by_id["client"].session.inbound
        local.run(lambda: client.socket.hold_until(inbound.begin_anew()))
        local.run(lambda: client.socket.write(Pingreq().encode(5)))
        assert client.received() == []
        commit(local, disk)
        assert isinstance(client.received()[0], Pingreq)
        assert inbound.begin_anew() == 0


def test_take_over() -> None:
    """A connection that is taken over gets what it waits for, then DISCONNECT, and is closed."""
    disk = SlowDisk()
    with LocalBroker(journal=disk.journal()) as local:
        older = kept_client(local, disk, "client")
        older.send(Publish(b"none", b"", 1, packet_id=5), Publish(b"t", b"", 1, packet_id=6))
        newer = local.client()
        newer.send(Connect("client", False, 0, properties={props.SESSION_EXPIRY_INTERVAL: 60}, version=5))
        assert older.received() == newer.received() == []
        commit(local, disk)
        kinds = [type(packet) for packet in older.received()]
        assert kinds[:2] == [Puback, Puback]
        assert kinds[-1] is Disconnect
        assert older.transport.closed


def test_too_much_waits() -> None:
    """More than 64 KiB that wait for the disk are a congested send path: QoS 0 is queued then (FC-3)."""
    disk = SlowDisk()
    with LocalBroker(journal=disk.journal()) as local:
        client = kept_client(local, disk, "client")
        publisher = local.client()
        publisher.connect("publisher")
        client.send(Publish(b"t", b"", 1, packet_id=5))
        publisher.send(*[Publish(b"t", bytes(50_000), 0) for _ in range(20)])
        session = local.broker.clients.by_id["client"].session
        assert session.gauges().congested
        assert session.gauges().mqueue_len >= 5
        commit(local, disk)
        local.run(lambda: None)
        assert not session.gauges().congested
        assert len([packet for packet in client.received() if isinstance(packet, Publish)]) == 21


def test_a_little_waits() -> None:
    """Less than 64 KiB that wait for the disk do not congest the send path: QoS 0 is not queued (FC-3)."""
    disk = SlowDisk()
    with LocalBroker(journal=disk.journal()) as local:
        client = kept_client(local, disk, "client")
        publisher = local.client()
        publisher.connect("publisher")
        client.send(Publish(b"t", b"", 1, packet_id=5))
        publisher.send(Publish(b"t", b"later", 0))
        gauges = local.broker.clients.by_id["client"].session.gauges()
        assert (gauges.congested, gauges.mqueue_len) == (False, 0)
        commit(local, disk)
        assert [packet.payload for packet in client.received() if isinstance(packet, Publish)] == [b"", b"later"]


def test_a_commit_that_has_returned() -> None:
    """What is only written when its commit has returned already waits for no other."""
    disk = SlowDisk()
    with LocalBroker(journal=disk.journal()) as local:
        client = local.client()
        client.send(Connect("kept", True, 0, properties={props.SESSION_EXPIRY_INTERVAL: 60}, version=5))
        disk.allow()
        local.complete(until(lambda: len(client.transport.written) > 0))
        client.expect(Connack)
        client.socket.hold_until(1)
        client.send(Pingreq())
        client.expect(Pingresp)
