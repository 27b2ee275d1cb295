"""FC-25: what waits at a full address while its publisher's connection goes, is taken over, or is not read."""

import pytest

from protocol import properties as props
from protocol.acknowledgements import Puback, Pubcomp, Pubrec, Pubrel
from protocol.disconnect import Disconnect
from protocol.ping import Pingreq, Pingresp
from protocol.properties import Properties
from tests.support.broker.full import (
    FILLING,
    SIZE,
    address,
    answered,
    answers,
    drain,
    fill,
    local_broker,
    numbers,
    packet,
    parked,
    publisher,
    send,
    session,
    subscriber,
    take,
)
from tests.support.broker.local import LocalBroker, LocalClient

WINDOW = 5 * SIZE
"""A producer window, in bytes."""
VERSIONS = pytest.mark.parametrize("version", [4, 5])


def connect(local: LocalBroker, version: int, *, clean: bool = False, keep_alive: int = 0) -> LocalClient:
    """The publisher, whose session is kept."""
    client = local.client(version)
    properties: Properties | None = {props.SESSION_EXPIRY_INTERVAL: 1000} if version == 5 else None
    client.connect("publisher", clean_start=clean, properties=properties, keep_alive=keep_alive)
    return client


def ping(client: LocalClient) -> bool:
    """Whether the client is read."""
    client.send(Pingreq())
    return any(isinstance(packet, Pingresp) for packet in client.received())


# -- the connection is lost


@VERSIONS
def test_qos1(version: int) -> None:
    """FC-25: QoS 1 of a client that has gone is routed, and acknowledged only when its client sends it again."""
    with local_broker() as local:
        reader, sender = fill(local, connect(local, version))
        send(sender, [11])
        sender.drop()
        again = connect(local, version)
        reader.send(Puback(1))
        assert again.received() == []
        send(again, [11], dup=True)
        assert again.received() == []
        reader.send(Puback(2))
        assert answered(again) == [11]
        assert drain(reader)[0] == [*FILLING, 11, 11]


@VERSIONS
def test_qos1_sent_again(version: int) -> None:
    """FC-25: a resent QoS 1 PUBLISH is acknowledged for itself, and not when the first one is routed."""
    with local_broker() as local:
        reader, sender = fill(local, connect(local, version))
        send(sender, [11])
        sender.drop()
        again = connect(local, version)
        send(again, [11], dup=True)
        reader.send(Puback(1))
        assert again.received() == []
        reader.send(Puback(2))
        assert answered(again) == [11]


@VERSIONS
def test_qos2(version: int) -> None:
    """FC-21, FC-25: QoS 2 of a client that comes back is routed once, and answered on the new connection."""
    with local_broker() as local:
        reader, sender = fill(local, connect(local, version))
        send(sender, [11], 2)
        sender.drop()
        again = connect(local, version)
        send(again, [11], 2, dup=True)
        assert address(local).waiting == 1
        assert again.received() == []
        reader.send(Puback(1))
        assert answered(again) == [11]
        again.send(Pubrel(11))
        again.expect(Pubcomp)
        assert drain(reader)[0] == [*FILLING, 11]


@VERSIONS
def test_qos2_routed_meanwhile(version: int) -> None:
    """FC-21, FC-25: QoS 2 that was routed while its client was away is answered, and not routed, when it is resent."""
    with local_broker() as local:
        reader, sender = fill(local, connect(local, version))
        send(sender, [11], 2)
        sender.drop()
        reader.send(Puback(1))
        again = connect(local, version)
        assert again.received() == []
        send(again, [11], 2, dup=True)
        assert answered(again) == [11]
        assert drain(reader)[0] == [*FILLING, 11]


@VERSIONS
def test_qos2_not_sent_again_yet(version: int) -> None:
    """FC-21, FC-25: QoS 2 that is routed after its client reconnected is answered only when it has been resent."""
    with local_broker() as local:
        reader, sender = fill(local, connect(local, version))
        send(sender, [11], 2)
        sender.drop()
        again = connect(local, version)
        reader.send(Puback(1))
        assert again.received() == []
        send(again, [11], 2, dup=True)
        assert answered(again) == [11]
        assert drain(reader)[0] == [*FILLING, 11]


@VERSIONS
@pytest.mark.parametrize("qos", [1, 2])
def test_given_up_meanwhile(version: int, qos: int) -> None:
    """FC-25: a PUBLISH given up while its client is away is forgotten, with those behind it, and can be sent again."""
    with local_broker(block_timeout="10s") as local:
        reader, sender = fill(local, connect(local, version))
        send(sender, [11, 12], qos)
        parked(local)[0].since -= 5_000_000
        sender.drop()
        local.pass_time(6)
        assert address(local).waiting == 0
        assert take(reader, 10) == list(FILLING)
        again = connect(local, version)
        send(again, [11, 12], qos, dup=True)
        assert answered(again) == [11, 12]
        assert take(reader, 2) == [11, 12]


@VERSIONS
def test_qos0_given_up_meanwhile(version: int) -> None:
    """FC-25: QoS 0 that times out while its client is away takes nothing along: it is not sent again."""
    with local_broker(block_timeout="10s") as local:
        reader, sender = fill(local, connect(local, version))
        send(sender, [11], 0)
        parked(local)[0].since -= 5_000_000
        send(sender, [12])
        sender.drop()
        local.pass_time(6)
        assert address(local).waiting == 1
        assert drain(reader)[0] == [*FILLING, 12]


def test_given_up_before_what_came_again() -> None:
    """FC-25: giving up a PUBLISH of an earlier connection keeps what the client has resent on the new one."""
    with local_broker(block_timeout="10s") as local:
        reader, sender = fill(local, connect(local, 4))
        send(sender, [11])
        send(sender, [12, 13], 2)
        for waiting in parked(local):
            waiting.since -= 5_000_000
        sender.drop()
        again = connect(local, 4)
        send(again, [11, 14])
        send(again, [12], 2, dup=True)
        parked(local)[1].since += 5_000_000
        local.pass_time(6)
        assert not again.gone
        assert drain(reader)[0] == [*FILLING, 12, 11, 14]
        assert sorted(answered(again)) == [11, 12, 14]


@VERSIONS
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_session_has_ended(version: int, qos: int) -> None:
    """FC-25: a parked PUBLISH is routed also if the session of its client has ended."""
    with local_broker() as local:
        reader = subscriber(local)
        sender = publisher(local, version)
        send(sender, FILLING)
        send(sender, [11, 12], qos)
        sender.drop()
        assert "publisher" not in local.broker.clients.by_id
        assert take(reader, 12) == list(range(1, 13))
        assert address(local).size == 0


@VERSIONS
@pytest.mark.parametrize("clean", [False, True])
def test_take_over(version: int, clean: bool) -> None:
    """FC-25: what the old connection has parked is routed after a take-over, and not answered on the new connection."""
    with local_broker() as local:
        reader, sender = fill(local, connect(local, version))
        send(sender, [11])
        send(sender, [12], 2)
        again = connect(local, version, clean=clean)
        assert sender.gone
        send(again, [13])
        assert take(reader, 13) == list(range(1, 14))
        assert answered(again) == [13]


def test_disconnect() -> None:
    """FC-25: what a client has parked is routed after its DISCONNECT."""
    with local_broker() as local:
        reader = subscriber(local)
        sender = publisher(local)
        sender.send(*[packet(number) for number in range(1, 13)], Disconnect())
        assert sender.gone
        assert take(reader, 12) == list(range(1, 13))


def test_orphaned_is_bounded() -> None:
    """FC-25: clients that have gone leave at most max_size_bytes parked, and the broker discards the rest."""
    with local_broker(block_timeout="infinity") as local:
        reader = subscriber(local)
        for times in range(1, 4):
            for client in range(10):
                sender = publisher(local, 5, f"short-{client}")
                send(sender, range(5 * client + 1, 5 * client + 6))
                sender.drop()
            assert address(local).waiting == 10
            assert local.broker.addresses.refused_total == times * 30
            assert take(reader, 20) == list(range(1, 21))
            assert drain(reader) == [[]]


# -- the connection is not read


@VERSIONS
def test_not_read_past_the_window(version: int) -> None:
    """FC-25: a connection is not read while its producer window is full, and is read again when it has room."""
    with local_broker(session={"producer_window_size": WINDOW}) as local:
        reader, sender = fill(local, connect(local, version))
        send(sender, [11, 12, 13, 14])
        assert ping(sender)
        send(sender, range(15, 25))
        assert not sender.transport.reading
        assert not ping(sender)
        assert address(local).waiting == 5
        reader.send(Puback(1))
        assert address(local).waiting == 5  # the next one has been read meanwhile
        assert take(reader, 24)[-1] == 24
        assert sender.transport.reading
        assert [number for number, _ in answers(sender.received())] == list(range(11, 25))


def test_many_small_ones() -> None:
    """FC-25: a parked PUBLISH counts for its overhead too, so small ones fill the producer window as well."""
    with local_broker(session={"producer_window_size": 10_000}) as local:
        _, sender = fill(local, connect(local, 4))
        send(sender, range(11, 1011), 0, size=4)
        assert not sender.transport.reading
        assert 100 < address(local).waiting < 200
        other = publisher(local, 5, "other")
        properties = {props.USER_PROPERTY: [("name", 1000 * "x")]}
        other.send(*[packet(number, 0, size=4, properties=dict(properties)) for number in range(20)])
        assert not other.transport.reading
        assert len(parked(local, "other")) == 10


def test_keepalive_of_who_is_not_read() -> None:
    """FC-25: the keep-alive of a client does not run while it is not read, and begins anew afterwards."""
    with local_broker(block_timeout="infinity", session={"producer_window_size": WINDOW}) as local:
        reader = subscriber(local)
        sender = connect(local, 4, keep_alive=10)
        send(sender, range(1, 21))
        assert not sender.transport.reading
        local.pass_time(100)
        assert not sender.gone
        reader.send(Puback(1))
        reader.send(Puback(2))
        assert take(reader, 20)[-1] == 20
        assert sender.transport.reading
        local.pass_time(100)
        assert sender.gone


def test_times_not_read() -> None:
    """FC-25: the counters have the time for which a client was not read because of its parked PUBLISHes."""
    with local_broker(session={"producer_window_size": WINDOW}) as local:
        reader, sender = fill(local, connect(local, 5))
        send(sender, range(11, 21))
        take(reader, 20)
        assert session(local).take_counters(0).uncommon.reading_paused_us > 0


@VERSIONS
def test_window_outlasts_the_connection(version: int) -> None:
    """FC-25: the producer window is that of the session, so a client that reconnects is not read until it has room."""
    with local_broker(session={"producer_window_size": WINDOW}) as local:
        reader, sender = fill(local, connect(local, version))
        send(sender, range(11, 17), 2)
        assert address(local).waiting == 5
        sender.drop()
        again = connect(local, version)
        assert not again.transport.reading
        send(again, range(11, 17), 2, dup=True)
        assert address(local).waiting == 5
        assert drain(reader)[0] == list(range(1, 17))
        assert again.transport.reading
        assert answered(again) == list(range(11, 17))


def test_gone_while_not_read() -> None:
    """FC-25: what is parked is routed after a connection breaks that is not read, and what was not read is lost."""
    with local_broker(session={"producer_window_size": WINDOW}) as local:
        reader, sender = fill(local, connect(local, 5))
        send(sender, range(11, 21))
        sender.drop()
        local.pass_time(3)
        assert take(reader, 15) == list(range(1, 16))
        assert reader.received() == []
        again = connect(local, 5)
        send(again, [16])
        assert answered(again) == [16]


def test_receive_maximum_of_a_new_connection() -> None:
    """FC-20, FC-25: PUBLISHes parked by an earlier connection do not count against the Receive Maximum of a new one."""
    with local_broker(session={"receive_maximum": 10}) as local:
        reader, sender = fill(local, connect(local, 5))
        send(sender, range(11, 21), 2)
        sender.drop()
        again = connect(local, 5)
        send(again, range(21, 31), 2)
        assert not again.gone
        send(again, range(11, 16), 2, dup=True)
        assert drain(reader)[0] == list(range(1, 31))
        assert answered(again) == [*range(11, 16), *range(21, 31)]


def test_end_of_stream() -> None:
    """FC-25: what came before the end of the stream is read, and what exceeds the producer window is refused."""
    with local_broker(session={"producer_window_size": WINDOW}) as local:
        reader, sender = fill(local, connect(local, 5))
        send(sender, range(11, 21), 0)
        assert not sender.transport.reading
        local.run(sender.socket.eof_received)
        assert sender.gone
        assert take(reader, 15) == list(range(1, 16))
        assert local.broker.addresses.refused_total == 5
        assert numbers(reader.received()) == []


def test_refused_twice() -> None:
    """FC-26: a 3.1.1 client that was closed for a PUBLISH can come back and send it again."""
    with local_broker("fail") as local:
        reader, sender = fill(local, connect(local, 4))
        send(sender, [11], 2)
        assert sender.gone
        take(reader, 10)
        again = connect(local, 4)
        send(again, [11], 2, dup=True)
        again.expect(Pubrec)
        assert take(reader, 1) == [11]
