"""A client that the broker disconnects can read why, even if it is sending at that moment."""

import select
from collections.abc import Iterator

import pytest

from protocol import reason_codes
from protocol.connack import Connack
from protocol.disconnect import Disconnect
from protocol.ping import Pingreq
from tests.support.certificates import Certificates
from tests.support.process import Address, BrokerProcess
from tests.support.waiting import wait_until
from tests.support.wire import WireClient


@pytest.fixture(params=["tcp", "tls"])
def client(request: pytest.FixtureRequest, broker: BrokerProcess, certificates: Certificates) -> Iterator[WireClient]:
    """A client that is connected, in plain TCP and in TLS."""
    context = certificates.client_context(with_certificate=False) if request.param == "tls" else None
    with WireClient(broker.address(request.param), 5, tls=context) as connecting:
        connecting.connect()
        yield connecting


def wait_for_answer(client: WireClient) -> None:
    """Wait until the broker has said something, without reading it."""
    assert select.select([client.socket], [], [], 5)[0], "the broker says nothing"


def send_on(client: WireClient) -> None:
    """Send as a client does that has not read yet: on a connection that is reset it fails."""
    for _ in range(500):
        client.send(Pingreq())


def test_disconnect_can_be_read(client: WireClient) -> None:
    """The broker reads on what a client sends behind its mistake, so that DISCONNECT is not lost in a TCP reset."""
    client.send(b"\x00\x00")
    wait_for_answer(client)
    send_on(client)
    last = client.expect_close()
    assert isinstance(last, Disconnect)
    assert last.reason_code == reason_codes.MALFORMED_PACKET


@pytest.mark.parametrize("version", [4, 5])
def test_refusal_can_be_read(address: Address, version: int) -> None:
    """The same holds for a CONNACK that refuses."""
    with WireClient(address, version) as client:
        level = b"\x09" if version == 5 else b"\x03"  # of an MQTT that there is not, or not any more
        client.send(b"\x10\x0c\x00\x04MQTT" + level + b"\x02\x00\x00\x00\x00")
        wait_for_answer(client)
        send_on(client)
        last = client.expect_close()
        assert isinstance(last, Connack)
        assert last.reason_code == (reason_codes.UNSUPPORTED_PROTOCOL_VERSION if version == 5 else 1)


def test_not_for_ever(client: WireClient) -> None:
    """A client that sends on without closing is cut off after a time."""
    client.send(b"\x00\x00")
    assert isinstance(client.expect_close(), Disconnect)

    def cut_off() -> bool:
        try:
            client.send(Pingreq())
        except OSError:
            return True
        return False

    wait_until(cut_off, "the connection is closed")
