"""What those fill who only may connect: the tables of strangers, each with its bound in bytes."""

from typing import Any, Final

import pytest

from broker.auth.authenticators.authenticator import Login
from broker.auth.authenticators.failures import MOST_KEYS
from broker.auth.authenticators.guard import MOST_KNOWN, Guard
from broker.connection.connection_rate import MOST_BUCKETS, ConnectionRate
from broker.connection.newcomers import MOST_HELD
from broker.runtime.clock import SECOND
from protocol.connect import Connect, Will
from protocol.disconnect import Disconnect
from tests.conformance.scram import Scram, settings
from tests.memory.tables import OF_STRANGERS
from tests.memory.traced import tracing
from tests.support.broker.local import LocalBroker, LocalClient

pytestmark = pytest.mark.once

LONG: Final = 60_000
"""Bytes of what is nearly as long as MQTT allows."""
SCRAM: Final[dict[str, Any]] = {"allow_anonymous": None, "authentication": settings()}


def long(number: int) -> str:
    """A text of LONG bytes, another one for each number."""
    return f"{number}".ljust(LONG, "x")


def refused(client: LocalClient, number: int) -> None:
    """A CONNECT that is refused."""
    client.send(Connect(long(number), version=5))
    assert client.gone


def malformed(client: LocalClient, number: int) -> None:
    """A CONNECT with an error behind its client id."""
    client.send(Connect(long(number), username="u", version=5).encode(5)[:-3] + b"\0\1\0")
    assert client.gone


def incomplete(client: LocalClient, number: int) -> None:
    """A CONNECT that does not end."""
    client.send(Connect(long(number), version=5).encode(5)[:-1])
    client.drop()


def begun(client: LocalClient, number: int) -> None:
    """A login by SCRAM that is begun and left."""
    client.send(Connect(long(number), will=Will(b"w", bytes(LONG)), properties=Scram().first(), version=5))
    client.drop()


def session(client: LocalClient, number: int) -> None:
    """A session that ends with its connection, with a keep-alive whose timer is hours away."""
    client.send(Connect(long(number), keep_alive=60_000, will=Will(b"w", bytes(LONG)), version=5), Disconnect())
    assert client.gone


@pytest.mark.parametrize("end", [refused, malformed, incomplete, begun, session])
def test_a_closed_connection(end: Any) -> None:
    """Whatever a client has sent is given back when its connection is closed, not when its timers come."""
    count = 100
    mqtt = {"max_clientid_len": 1_024 if end is refused else 65_535}
    with LocalBroker(mqtt=mqtt, **(SCRAM if end is begun else {})) as local:
        end(local.client(), 0)  # what is made once is there
        with tracing() as traced:
            for number in range(count):
                end(local.client(), number)
            assert traced.bytes() < count * OF_STRANGERS["a closed connection"]


def test_connections_without_a_session() -> None:
    """Logins by SCRAM that are begun and not gone on with hold 16 MiB together, then the oldest are refused."""
    with LocalBroker(mqtt={"max_clientid_len": 65_535}, **SCRAM) as local:
        honest = local.client()
        honest.send(Connect("honest", properties=Scram().first(), version=5))
        clients = []
        with tracing() as traced:
            for number in range(2 * MOST_HELD // LONG):
                clients.append(client := local.client())
                client.send(Connect(long(number), properties=Scram().first(), version=5))
            assert traced.bytes() < 1.5 * OF_STRANGERS["connections without a session"]
        assert local.broker.handlers.newcomers.held <= MOST_HELD
        gone = [client.gone for client in clients]
        assert 0 < sum(gone) < len(gone)
        assert gone == sorted(gone, reverse=True)
        assert not honest.gone  # older than all of them, and small


def test_rates_of_connections() -> None:
    """However many addresses connect within a second, the rates of 100,000 at most are known; each is limited still."""
    rates = ConnectionRate(1)
    with tracing() as traced:
        for number in range(2 * MOST_BUCKETS + 1_000):
            assert rates.admit(f"2001:db8:{number >> 16:x}:{number & 0xFFFF:x}::1", 0)
        assert not rates.admit(f"2001:db8:{number >> 16:x}:{number & 0xFFFF:x}::1", 0)
        assert len(rates) <= 2 * MOST_BUCKETS
        assert traced.bytes() < OF_STRANGERS["rates of connections"]


def test_failed_logins() -> None:
    """However long the names are that are tried, the tables of failures keep digests of them."""
    guard = Guard(per_address=3, per_user=3, period=60 * SECOND)
    with tracing() as traced:
        for number in range(MOST_KEYS + 100):
            guard.failed(Login(long(number)[:2_000], b"", host=f"10.{number >> 8}.{number & 255}.1"), 0)
        assert traced.bytes() < OF_STRANGERS["failed logins"]


def test_logins_that_have_succeeded() -> None:
    """The same is true of where logins have succeeded."""
    guard = Guard(per_address=3, per_user=3, period=60 * SECOND)
    with tracing() as traced:
        for number in range(MOST_KNOWN + 100):
            guard.succeeded(Login(name := long(number)[:2_000], b"", host="10.0.0.1"), name)
        assert traced.bytes() < OF_STRANGERS["logins that have succeeded"]
