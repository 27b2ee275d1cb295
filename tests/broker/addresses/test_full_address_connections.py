"""FC-25: what waits at a full address while its publisher's connection goes, is taken over, or is not read."""

import pytest

from protocol import properties as props
from protocol import reason_codes
from protocol.acknowledgements import Puback, Pubcomp, Pubrec, Pubrel
from protocol.disconnect import Disconnect
from protocol.ping import Pingreq, Pingresp
from protocol.properties import Properties
from tests.support.broker.full import (
    LIMIT,
    SIZE,
    address,
    answered,
    answers,
    drain,
    local_broker,
    numbers,
    packet,
    publisher,
    send,
    subscriber,
    take,
)
from tests.support.broker.local import LocalBroker, LocalClient

FILLING = range(1, LIMIT // SIZE + 1)
QUOTA_EXCEEDED = reason_codes.QUOTA_EXCEEDED
WINDOW = 5 * SIZE
"""A producer window, in bytes."""
VERSIONS = pytest.mark.parametrize("version", [4, 5])


def connect(local: LocalBroker, version: int, *, clean: bool = False, keep_alive: int = 0) -> LocalClient:
    """The publisher, whose session is kept."""
    client = local.client(version)
    properties: Properties | None = {props.SESSION_EXPIRY_INTERVAL: 1000} if version == 5 else None
    client.connect("publisher", clean_start=clean, properties=properties, keep_alive=keep_alive)
    return client


def fill(local: LocalBroker, version: int) -> tuple[LocalClient, LocalClient]:
    """A subscriber that acknowledges nothing, and a publisher with a session that is kept and a full address."""
    reader = subscriber(local)
    sender = connect(local, version)
    send(sender, FILLING)
    assert answered(sender) == list(FILLING)
    return reader, sender


def ping(client: LocalClient) -> bool:
    """Whether the client is read."""
    client.send(Pingreq())
    return any(isinstance(packet, Pingresp) for packet in client.received())


# -- the connection is lost


@VERSIONS
def test_qos1(version: int) -> None:
    """FC-25: QoS 1 whose client has gone is routed, and answered on no other connection: it may come again."""
    with local_broker() as local:
        reader, sender = fill(local, version)
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
    """FC-25: the answer to what was sent first does not go to what was sent again: that may have another fate."""
    with local_broker() as local:
        reader, sender = fill(local, version)
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
    """FC-21, FC-25: QoS 2 whose client has gone and comes back is routed once, and answered where it was sent again."""
    with local_broker() as local:
        reader, sender = fill(local, version)
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
    """FC-21, FC-25: QoS 2 that was routed while its client was away is answered when it is sent again, not routed."""
    with local_broker() as local:
        reader, sender = fill(local, version)
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
    """FC-21, FC-25: nor is it answered before it is sent again: the client would not know what for."""
    with local_broker() as local:
        reader, sender = fill(local, version)
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
    """FC-25: what is given up while nobody can be told is forgotten, with what came behind it: all will come again."""
    with local_broker(block_timeout="10s") as local:
        reader, sender = fill(local, version)
        send(sender, [11, 12], qos)
        producers = local.broker.addresses.producers
        producers.parked(local.broker.clients.by_id["publisher"].session)[0].since -= 5_000_000
        sender.drop()
        local.pass_time(6)
        assert address(local).waiting == 0
        assert take(reader, 10) == list(FILLING)
        again = connect(local, version)
        send(again, [11, 12], qos, dup=True)
        assert answered(again) == [11, 12]
        assert take(reader, 2) == [11, 12]


def test_given_up_before_what_came_again() -> None:
    """FC-25: what has come again on the new connection is not forgotten with it: its client waits for an answer."""
    with local_broker(block_timeout="10s") as local:
        reader, sender = fill(local, 4)
        send(sender, [11])
        send(sender, [12, 13], 2)
        producers = local.broker.addresses.producers
        for parked in producers.parked(local.broker.clients.by_id["publisher"].session):
            parked.since -= 5_000_000
        sender.drop()
        again = connect(local, 4)
        send(again, [11, 14])
        send(again, [12], 2, dup=True)
        producers.parked(local.broker.clients.by_id["publisher"].session)[1].since += 5_000_000
        local.pass_time(6)
        assert not again.gone
        assert drain(reader)[0] == [*FILLING, 12, 11, 14]
        assert sorted(answered(again)) == [11, 12, 14]


@VERSIONS
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_session_has_ended(version: int, qos: int) -> None:
    """FC-25: what waits is routed also if the session of its client has ended."""
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
    """FC-25: a connection that takes over gets no answers to what it has not sent; that is routed nevertheless."""
    with local_broker() as local:
        reader, sender = fill(local, version)
        send(sender, [11])
        send(sender, [12], 2)
        again = connect(local, version, clean=clean)
        assert sender.gone
        send(again, [13])
        assert take(reader, 13) == list(range(1, 14))
        assert answered(again) == [13]


def test_disconnect() -> None:
    """FC-25: who takes leave properly leaves what waits behind, too."""
    with local_broker() as local:
        reader = subscriber(local)
        sender = publisher(local)
        sender.send(*[packet(number) for number in range(1, 13)], Disconnect())
        assert sender.gone
        assert take(reader, 12) == list(range(1, 13))


def test_left_behind_is_bounded() -> None:
    """FC-25: clients that come, publish and go leave at most another max_size_bytes behind; the rest is discarded."""
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
    """FC-25: a connection whose producer window is used up is not read; it is again as soon as there is room in it."""
    with local_broker(session={"producer_window_size": WINDOW}) as local:
        reader, sender = fill(local, version)
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
    """FC-25: small PUBLISHes count for what they take besides their payload, so that there is an end to them too."""
    with local_broker(session={"producer_window_size": 10_000}) as local:
        _, sender = fill(local, 4)
        send(sender, range(11, 1011), 0, size=4)
        assert not sender.transport.reading
        assert 100 < address(local).waiting < 200
        other = publisher(local, 5, "other")
        properties = {props.USER_PROPERTY: [("name", 1000 * "x")]}
        other.send(*[packet(number, 0, size=4, properties=dict(properties)) for number in range(20)])
        assert not other.transport.reading
        assert len(local.broker.addresses.producers.parked(local.broker.clients.by_id["other"].session)) == 10


def test_keepalive_of_who_is_not_read() -> None:
    """FC-25: a client that is not read cannot be silent: its keepalive does not end it, and begins anew later."""
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
    """FC-25: how long a client was not read because of what waits is among its metrics."""
    with local_broker(session={"producer_window_size": WINDOW}) as local:
        reader, sender = fill(local, 5)
        send(sender, range(11, 21))
        session = local.broker.clients.by_id["publisher"].session
        take(reader, 20)
        assert session.take_counters(0).reading_paused_us > 0


@VERSIONS
def test_window_outlasts_the_connection(version: int) -> None:
    """FC-25: a client that comes back gets no new window: it is not read before what waits takes up less."""
    with local_broker(session={"producer_window_size": WINDOW}) as local:
        reader, sender = fill(local, version)
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
    """FC-25: a connection that breaks while it is not read is gone; what came of it waits on, the rest is lost."""
    with local_broker(session={"producer_window_size": WINDOW}) as local:
        reader, sender = fill(local, 5)
        send(sender, range(11, 21))
        sender.drop()
        local.pass_time(3)
        assert take(reader, 15) == list(range(1, 16))
        assert reader.received() == []
        again = connect(local, 5)
        send(again, [16])
        assert answered(again) == [16]


def test_receive_maximum_of_a_new_connection() -> None:
    """FC-20, FC-25: what waits since an earlier connection takes nothing from the credit of this one."""
    with local_broker(session={"receive_maximum": 10}) as local:
        reader, sender = fill(local, 5)
        send(sender, range(11, 21), 2)
        sender.drop()
        again = connect(local, 5)
        send(again, range(21, 31), 2)
        assert not again.gone
        send(again, range(11, 16), 2, dup=True)
        assert drain(reader)[0] == list(range(1, 31))
        assert answered(again) == [*range(11, 16), *range(21, 31)]


def test_end_of_stream() -> None:
    """FC-25: what came before the end of the stream counts, though past the window it is treated as `fail` has it."""
    with local_broker(session={"producer_window_size": WINDOW}) as local:
        reader, sender = fill(local, 5)
        send(sender, range(11, 21), 0)
        assert not sender.transport.reading
        local.run(sender.connection.eof_received)
        assert sender.gone
        assert take(reader, 15) == list(range(1, 16))
        assert local.broker.addresses.refused_total == 5
        assert numbers(reader.received()) == []


def test_refused_twice() -> None:
    """FC-26: a 3.1.1 client that is closed for a PUBLISH may come back and send it again, now successfully."""
    with local_broker("fail") as local:
        reader, sender = fill(local, 4)
        send(sender, [11], 2)
        assert sender.gone
        take(reader, 10)
        again = connect(local, 4)
        send(again, [11], 2, dup=True)
        again.expect(Pubrec)
        assert take(reader, 1) == [11]
