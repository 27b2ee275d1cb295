"""Server redirection (section 4.11 of 5.0, which has no numbered statement of its own)."""

import pytest

from protocol import properties as props
from protocol import reason_codes
from protocol.connack import Connack
from tests.conformance import by_hand
from tests.conformance.configured import Configured
from tests.support.process import Address
from tests.support.wire import WireClient

REFERENCE = "one.example:1883 [fe80::1]:8883"
CODES = {"temporary": reason_codes.USE_ANOTHER_SERVER, "permanent": reason_codes.SERVER_MOVED}


@pytest.mark.parametrize("kind", ["temporary", "permanent"])
def test_redirected(configured: Configured, kind: str) -> None:
    """CONNACK says that the client should use another server, or that this one has moved; it names it and closes."""
    address = configured(mqtt={"redirect_to": REFERENCE, "redirect": kind})
    with WireClient(address, 5) as client:
        connack = client.connect()
        assert connack.reason_code == CODES[kind]
        assert not connack.session_present
        assert (connack.properties or {})[props.SERVER_REFERENCE] == REFERENCE
        assert client.expect_close() is None


def test_redirected_without_words(configured: Configured) -> None:
    """3.1.1 has no redirection: the client is refused with Server unavailable, or without CONNACK."""
    address = configured(mqtt={"redirect_to": REFERENCE})
    with WireClient(address, 4) as client:
        try:
            assert client.connect().reason_code == 3
        except ConnectionError:
            return
        assert client.expect_close() is None


def test_reference_that_does_not_fit(configured: Configured) -> None:
    """A Server Reference that would exceed the client's Maximum Packet Size is left out [MQTT-3.1.2-24]."""
    address = configured(mqtt={"redirect_to": " ".join(f"server-{number}.example:1883" for number in range(20))})
    with WireClient(address, 5) as client:
        try:
            connack = client.connect(properties={props.MAXIMUM_PACKET_SIZE: 100})
        except ConnectionError:
            return
        assert len(connack.encode(5)) <= 100
        assert connack.reason_code == reason_codes.USE_ANOTHER_SERVER
        assert client.expect_close() is None


def test_no_reference_unless_redirected(address: Address) -> None:
    """A server that accepts the client sends no Server Reference [MQTT5 3.2.2.3.16]."""
    with WireClient(address, 5) as client:
        connack = client.connect()
        assert connack.reason_code == reason_codes.SUCCESS
        assert props.SERVER_REFERENCE not in (connack.properties or {})
        client.send(by_hand.PINGREQ)
        assert not isinstance(client.receive(), Connack)
