"""PINGREQ and PINGRESP (sections 3.12 and 3.13)."""

import pytest

from tests.conformance import by_hand
from tests.support.process import Address
from tests.support.wire import connected


def test_pingresp(address: Address, version: int) -> None:
    """PINGREQ is answered with PINGRESP, which is two bytes long."""
    with connected(address, version) as client:
        client.send(by_hand.PINGREQ)
        assert by_hand.receive(client) == (by_hand.PINGRESP[0], b"")


def test_one_pingresp_each(address: Address, version: int) -> None:
    """Each of many PINGREQs in one write is answered with one PINGRESP."""
    with connected(address, version) as client:
        client.send(by_hand.PINGREQ * 100)
        assert [by_hand.receive(client) for _ in range(100)] == [(by_hand.PINGRESP[0], b"")] * 100
        client.send(by_hand.subscribe(version, 1, [("ping", 0)]))
        assert by_hand.receive(client)[0] == by_hand.SUBACK


def test_ping_without_keep_alive(address: Address, version: int) -> None:
    """A client with keep-alive 0 may ping as well [MQTT5 3.1.2.10]."""
    with connected(address, version, keep_alive=0) as client:
        client.send(by_hand.PINGREQ)
        assert by_hand.receive(client)[0] == by_hand.PINGRESP[0]


@pytest.mark.parametrize("bad", [b"\xc1\x00", b"\xc8\x00", b"\xc0\x01\x00"], ids=["flag", "another flag", "payload"])
def test_bad_pingreq(address: Address, version: int, bad: bytes) -> None:
    """PINGREQ with flags, or with anything after its fixed header, closes the connection [MQTT5 3.12.1]."""
    with connected(address, version) as client:
        client.send(bad)
        client.expect_close()
