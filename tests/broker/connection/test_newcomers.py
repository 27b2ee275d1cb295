"""Connections without a session: what they may hold, and who is refused when there are too many."""

import resource
import socket
import ssl
from contextlib import ExitStack

import pytest

from broker.connection.newcomers import LEAST, MOST_CONNECT, MOST_HELD
from protocol.connack import Connack
from protocol.connect import Connect, Will
from protocol.primitives import encode_variable_byte_integer
from protocol.publish import Publish
from tests.broker.conftest import Start
from tests.support.broker.local import LocalBroker, LocalClient
from tests.support.brokers import Listener
from tests.support.certificates import Certificates
from tests.support.wire import WireClient

PIECE = 100_000
"""Bytes of a CONNECT that does not end."""
MANY = 3 * MOST_HELD // PIECE


def beginning(size: int = MOST_CONNECT - 10) -> bytes:
    """The fixed header of a CONNECT, and the beginning of what is in it."""
    return b"\x10" + encode_variable_byte_integer(size) + b"\0\4MQTT\5\2\0\0\0"


def begin(local: LocalBroker) -> LocalClient:
    """A client that has sent a part of a large CONNECT."""
    client = local.client()
    client.send(beginning() + bytes(PIECE))
    return client


def test_what_they_hold_is_bounded() -> None:
    """However many send CONNECTs that do not end, they hold 16 MiB: the oldest are refused. Others are served."""
    with LocalBroker() as local:
        user = local.client()
        user.connect("user")
        clients = [begin(local) for _ in range(MANY)]
        newcomers = local.broker.handlers.newcomers
        assert MOST_HELD - PIECE < newcomers.held <= MOST_HELD
        refused = [client.gone for client in clients]
        assert refused == [number < sum(refused) for number in range(MANY)]
        assert sum(map(bool, refused)) == MANY - MOST_HELD // len(beginning() + bytes(PIECE))
        assert local.client().connect("another").reason_code == 0
        for client in clients:
            if not client.gone:
                client.drop()
        assert (newcomers.held, len(newcomers)) == (0, 0)
        assert not user.gone


def connect_of(size: int) -> bytes:
    """A CONNECT of so many bytes: nearly all of them are the will and the password."""
    empty = Connect("x", will=Will(b"t", bytes(65_000)), username="", password=bytes(65_000), version=5)
    empty.username = "u" * (size - len(empty.encode(5)))
    packet = empty.encode(5)
    assert len(packet) == size
    return packet


def test_a_session_ends_it() -> None:
    """What a client has sent of its CONNECT counts until it has a session."""
    with LocalBroker() as local:
        newcomers = local.broker.handlers.newcomers
        client, packet = local.client(), connect_of(MOST_CONNECT)
        client.send(packet[:PIECE])
        assert newcomers.held == PIECE
        client.send(packet[PIECE:])
        assert client.expect(Connack).reason_code == 0
        assert (newcomers.held, len(newcomers)) == (0, 0)


@pytest.mark.parametrize("size", [MOST_CONNECT, MOST_CONNECT + 1])
def test_connect_has_a_largest_size(size: int) -> None:
    """A CONNECT of 128 KiB is accepted, and no larger one. Later packets may be larger."""
    with LocalBroker() as local:
        client = local.client()
        client.send(connect_of(size))
        if size > MOST_CONNECT:
            assert client.gone
            return
        assert client.expect(Connack).reason_code == 0
        client.send(Publish(b"t", bytes(2 * MOST_CONNECT)))
        assert not client.gone


@pytest.mark.parametrize("over_tls", [False, True])
def test_too_many_connections(start: Start, certificates: Certificates, over_tls: bool) -> None:
    """Without sessions hardly more than mqtt.max_connections may be connected: the oldest is closed, others enter."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # many systems start with 1,024
    listener = Listener("tls", certificates) if over_tls else Listener()
    with start(listeners=(listener,), sections={"mqtt": {"max_connections": 5}}) as broker, ExitStack() as stack:
        address = broker.address(listener.name)
        sockets = [stack.enter_context(socket.create_connection(address)) for _ in range(LEAST + 1)]
        sockets[0].settimeout(10)
        assert sockets[0].recv(1) == b""
        tls = ssl.create_default_context(cafile=str(certificates.cafile)) if over_tls else None
        stack.enter_context(WireClient(address, tls=tls)).connect("x")
