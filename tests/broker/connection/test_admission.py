"""When a client is accepted and for how long, on a clock that the test sets: CONNECT in time, keep-alive, limits."""

import pytest

from protocol import properties as props
from protocol import reason_codes
from protocol.disconnect import Disconnect
from tests.support.broker.local import LocalBroker


def test_keepalive() -> None:
    """Silence of one and a half keepalives closes the connection, 0x8D in MQTT 5 [MQTT-3.1.2-22]."""
    with LocalBroker() as local:
        client = local.client(5)
        client.connect("c", keep_alive=100)
        local.pass_time(149)
        assert not client.gone
        local.pass_time(2)
        assert client.expect(Disconnect).reason_code == reason_codes.KEEP_ALIVE_TIMEOUT
        assert client.gone


def test_no_keepalive() -> None:
    """With a keep-alive of 0 a silent client stays connected [MQTT5 3.1.2.10]."""
    with LocalBroker() as local:
        client = local.client(5)
        client.connect("c", keep_alive=0)
        local.pass_time(86_400)
        assert not client.gone


@pytest.mark.parametrize("beginning", [b"", b"\x10", b"\x10\x20\x00\x04MQTT"])
def test_waiting_for_connect(beginning: bytes) -> None:
    """A connection without CONNECT within connect_timeout is closed without a packet [MQTT5 3.1.0]."""
    with LocalBroker(mqtt={"connect_timeout": 5.0}) as local:
        client = local.client(5)
        client.send(beginning)
        local.pass_time(4)
        assert not client.gone
        local.pass_time(2)
        assert client.gone
        assert client.received() == []


def test_waiting_for_connect_for_ever() -> None:
    """With connect_timeout: infinity a connection without CONNECT stays open."""
    with LocalBroker(mqtt={"connect_timeout": float("inf")}) as local:
        client = local.client(5)
        local.pass_time(10_000)
        assert not client.gone


@pytest.mark.parametrize(("version", "code"), [(4, 3), (5, reason_codes.QUOTA_EXCEEDED)])
def test_max_connections(version: int, code: int) -> None:
    """Past max_connections CONNECT is refused, with 0x97 in MQTT 5 and 3 in 3.1.1, until a connection ends."""
    with LocalBroker(mqtt={"max_connections": 2}) as local:
        first, second = local.client(version), local.client(version)
        first.connect("first")
        second.connect("second")
        third = local.client(version)
        assert third.connect("third").reason_code == code
        assert third.gone
        assert "third" not in local.broker.clients.by_id
        again = local.client(version)
        assert again.connect("second").reason_code == 0  # in place of the older one, which is not a further one
        assert second.gone
        first.drop()
        assert local.client(version).connect("third").reason_code == 0
        assert local.client(version).connect("fourth").reason_code == code


def test_authentication_method() -> None:
    """A CONNECT with an authentication method is refused with 0x8C: no users are configured [MQTT-4.12.0-1]."""
    with LocalBroker() as local:
        client = local.client(5)
        connack = client.connect("c", properties={props.AUTHENTICATION_METHOD: "SCRAM-SHA-1"})
        assert connack.reason_code == reason_codes.BAD_AUTHENTICATION_METHOD
        assert client.gone


def test_client_id_too_long() -> None:
    """max_clientid_len counts bytes: 0x85 in MQTT 5, 2 in 3.1.1."""
    with LocalBroker(mqtt={"max_clientid_len": 23}) as local:
        assert local.client(5).connect("ä" * 11).reason_code == 0
        assert local.client(5).connect("ä" * 12).reason_code == reason_codes.CLIENT_IDENTIFIER_NOT_VALID
        assert local.client(4).connect("ä" * 12).reason_code == 2


@pytest.mark.parametrize(("version", "refused"), [(5, reason_codes.CLIENT_IDENTIFIER_NOT_VALID), (4, 2)])
def test_longest_client_id_by_default(version: int, refused: int) -> None:
    """Where nothing is configured, 1,024 bytes are accepted and one more is not."""
    with LocalBroker() as local:
        assert local.client(version).connect("x" * 1_024).reason_code == 0
        assert local.client(version).connect("x" * 1_025).reason_code == refused
