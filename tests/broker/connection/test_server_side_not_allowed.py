"""Well-formed packets that clients must not send."""

import pytest

from protocol import properties as props
from protocol import reason_codes
from protocol.auth import Auth
from protocol.connack import Connack
from protocol.disconnect import Disconnect
from protocol.packet import Packet
from protocol.ping import Pingresp
from protocol.publish import Publish
from protocol.suback import Suback
from protocol.unsuback import Unsuback
from tests.support.process import Address
from tests.support.wire import connected


@pytest.mark.parametrize("packet", [Connack(), Suback(1, [0]), Unsuback(1, [0]), Pingresp()])
def test_servers_packets(address: Address, packet: Packet) -> None:
    """Packets that only servers send are protocol errors."""
    with connected(address, 5) as client:
        client.send(packet)
        last = client.expect_close()
        assert isinstance(last, Disconnect)
        assert last.reason_code == reason_codes.PROTOCOL_ERROR


def test_auth(address: Address) -> None:
    """AUTH without an authentication method in CONNECT is a protocol error [MQTT-4.12.0-6]."""
    with connected(address, 5) as client:
        client.send(Auth(0x18, {props.AUTHENTICATION_METHOD: "SCRAM-SHA-1"}))
        last = client.expect_close()
        assert isinstance(last, Disconnect)
        assert last.reason_code == reason_codes.PROTOCOL_ERROR


def test_too_many_levels(address: Address) -> None:
    """A topic with more than max_topic_levels levels is refused with 0x90."""
    with connected(address, 5) as client:
        client.publish("/".join("x" * 128), b"x", 1)
        client.send(Publish(b"/".join([b"x"] * 129), b"x", 1, packet_id=2))
        last = client.expect_close()
        assert isinstance(last, Disconnect)
        assert last.reason_code == reason_codes.TOPIC_NAME_INVALID
