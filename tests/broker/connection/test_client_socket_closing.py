"""How connections end: nothing is written after the end, no client keeps a connection open, crashes are reported."""

import pytest

from protocol import properties as props
from protocol import reason_codes
from protocol.connack import Connack
from protocol.connect import Connect, Will
from protocol.disconnect import Disconnect
from protocol.publish import Publish
from tests.support.broker.local import LocalBroker, LocalClient


def publish(client: LocalClient, topic: bytes, payload: bytes, qos: int = 0) -> None:
    """Send one PUBLISH."""
    client.send(Publish(topic, payload, qos, packet_id=1 if qos else 0))


@pytest.mark.parametrize("qos", [0, 1])
def test_nothing_after_the_end(qos: int) -> None:
    """Deliveries for a connection that is closing stay with the session and are not written after DISCONNECT."""
    kept = {props.SESSION_EXPIRY_INTERVAL: 100}
    with LocalBroker() as local:
        subscriber, publisher = local.client(), local.client()
        subscriber.connect("subscriber", properties=dict(kept))
        subscriber.subscribe("t", qos)
        publisher.connect("publisher")
        subscriber.transport.stuck = True
        local.run(lambda: subscriber.connection.close(reason_codes.SERVER_SHUTTING_DOWN))
        publish(publisher, b"t", b"while closing", qos)
        assert isinstance(subscriber.received()[-1], Disconnect)
        assert subscriber.transport.writes_after_close == 0
        subscriber.drop()
        again = local.client()
        again.send(Connect("subscriber", False, properties=dict(kept), version=5))
        connack, delivery = again.received()
        assert isinstance(connack, Connack)
        assert connack.session_present
        assert isinstance(delivery, Publish)
        assert (delivery.payload, delivery.dup) == (b"while closing", False)


def test_half_closed_and_stuck() -> None:
    """A client that ends its side and reads nothing is closed, even without a keep-alive."""
    with LocalBroker() as local:
        client = local.client()
        client.connect("half")
        client.transport.stuck = True
        assert not local.run(client.socket.eof_received)
        local.pass_time(6)
        assert client.gone
        assert not local.broker.connections


def test_silent_and_stuck() -> None:
    """A client that is silent past its keep-alive and reads nothing is closed."""
    with LocalBroker() as local:
        client = local.client()
        client.connect("silent", keep_alive=10)
        client.transport.stuck = True
        local.pass_time(15.2)
        local.pass_time(6)
        assert client.gone


def test_will_at_once_when_closing() -> None:
    """The will of a client that the broker disconnects is published before the client has read its DISCONNECT."""
    with LocalBroker() as local:
        watcher, client = local.client(), local.client()
        watcher.connect("watcher")
        watcher.subscribe("will")
        client.connect("client", will=Will(b"will", b"gone", 0, False, None))
        client.transport.stuck = True
        local.run(lambda: client.connection.close(reason_codes.KEEP_ALIVE_TIMEOUT))
        assert watcher.expect(Publish).payload == b"gone"
        client.drop()
        assert watcher.received() == []


def test_crash_of_a_pass() -> None:
    """An exception in a session's pass is logged and closes that session's connection and no other."""

    def broken(_: object) -> None:
        raise RuntimeError("out of order")

    with LocalBroker() as local:
        victim, other = local.client(), local.client()
        victim.connect("victim")
        other.connect("other")
        victim.subscribe("t")
        other.subscribe("t")
        victim.transport.write = broken  # type: ignore[method-assign,assignment]
        publish(other, b"t", b"x")
        assert victim.gone
        assert other.expect(Publish).payload == b"x"
        assert [str(crash["exception"]) for crash in local.crashes] == ["out of order"]
        local.crashes.clear()


def test_crash_of_a_timer() -> None:
    """A timer that raises does not keep other timers of its slot from running."""
    with LocalBroker() as local:
        clients = [local.client() for _ in range(3)]
        for number, client in enumerate(clients):
            client.connect(f"client-{number}", keep_alive=1)

        def broken() -> None:
            raise RuntimeError("out of order")

        clients[0].transport.close = broken  # type: ignore[method-assign]
        with pytest.raises(RuntimeError):
            local.pass_time(2)
        local.pass_time(0)
        assert [client.gone for client in clients] == [False, True, True]
