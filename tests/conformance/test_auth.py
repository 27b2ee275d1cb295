"""The AUTH packet (section 3.15); test_enhanced_authentication.py has the exchanges."""

import pytest

from protocol import properties as props
from protocol.auth import Auth
from protocol.connack import Connack
from protocol.connect import Connect
from tests.conformance.by_hand import packet, receive
from tests.conformance.configured import Configured
from tests.conformance.delivery import unique
from tests.conformance.scram import CONTINUE, Scram, settings
from tests.support.process import Address
from tests.support.wire import WireClient, connected


@pytest.mark.parametrize("flag", [1, 2, 4, 8])
def test_reserved_bits(address: Address, flag: int) -> None:
    """An AUTH with a flag closes the connection."""
    with connected(address, 5) as client:
        client.send(bytes([0xF0 | flag, 0]))
        assert not any(isinstance(each, Auth) for each in client.until_close())


@pytest.mark.parametrize("flag", [1, 2, 4, 8])
def test_reserved_bits_in_an_exchange(configured: Configured, flag: int) -> None:
    """During an exchange too, an AUTH that is valid except for a flag closes the connection."""
    scram = Scram()
    with WireClient(configured(authentication=settings()), 5) as client:
        client.send(Connect(unique("c"), True, 0, properties=scram.first(), version=5))
        right = Auth(CONTINUE, scram.final(client.expect(Auth).properties)).encode(5)
        client.send(bytes([right[0] | flag]) + right[1:])
        last = client.until_close()
        assert all(isinstance(each, Connack) and each.reason_code for each in last), last


def test_not_in_3_1_1(address: Address) -> None:
    """In 3.1.1 packet type 15 is reserved."""
    with connected(address, 4) as client:
        client.send(b"\xf0\0")
        assert client.until_close() == []


@pytest.mark.parametrize("size", [16, 32, 64, 96, 128, 256])
def test_size(configured: Configured, size: int) -> None:
    """An AUTH is never larger than the client's Maximum Packet Size: it lacks optional properties, or is not sent."""
    with WireClient(configured(authentication=settings()), 5) as client:
        asked = Scram().first() | {props.MAXIMUM_PACKET_SIZE: size}
        client.send(Connect(unique("c"), True, 0, properties=asked, version=5))
        try:
            first, body = receive(client)
        except ConnectionError:
            return
        assert len(packet(first, body)) <= size
