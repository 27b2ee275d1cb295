"""The catalogue of malformed packets, sent to a broker: each gets its reason code, and closes the connection."""

from typing import Any

import pytest

from protocol import reason_codes
from protocol.connack import Connack
from protocol.connect import Connect
from protocol.disconnect import Disconnect
from protocol.publish import Publish
from tests.support.broker.events import events
from tests.support.process import Address, BrokerProcess
from tests.support.protocol.malformed import MALFORMED, SECOND_CONNECT, Malformed
from tests.support.waiting import wait_until
from tests.support.wire import WireClient, connected

LIMIT = 1024 * 1024
"""max_packet_size of the default configuration."""


def cases(connect: bool) -> list[object]:
    """Those that are a connection's first packet, or those that are not."""
    return [pytest.param(case, id=case.name) for case in MALFORMED + SECOND_CONNECT if _is_first(case) == connect]


def _is_first(case: Malformed) -> bool:
    return case.is_connect and case not in SECOND_CONNECT


@pytest.mark.parametrize("case", cases(connect=False))
def test_after_connect(address: Address, case: Malformed) -> None:
    """MQTT 5 clients get the reason in a DISCONNECT; 3.1.1 has none, so the connection is just closed."""
    with connected(address, case.version) as client:
        client.send(bytes.fromhex(case.data))
        last = client.expect_close()
    if case.version == 5:
        assert isinstance(last, Disconnect)
        assert last.reason_code == case.reason_code
    else:
        assert last is None


@pytest.mark.parametrize("case", cases(connect=True))
def test_connect(address: Address, case: Malformed) -> None:
    """A malformed CONNECT is refused with a CONNACK if the client's version has a code for it."""
    with WireClient(address, case.version) as client:
        client.send(bytes.fromhex(case.data))
        last = client.expect_close()
    if case.reason_code == reason_codes.UNSUPPORTED_PROTOCOL_VERSION:
        assert last is None or isinstance(last, Connack)  # in the form of the version that was asked for
    elif case.version == 5 and case.data.startswith("10"):
        assert isinstance(last, Connack)
        assert last.reason_code == case.reason_code
    else:
        assert last is None  # 3.1.1, or not even a CONNECT's first byte: the version is not known


@pytest.mark.parametrize(("level", "answer"), [(3, "20020001"), (6, "2003008400"), (255, "2003008400")])
def test_unsupported_version(address: Address, level: int, answer: str) -> None:
    """An unsupported protocol level is refused in a CONNACK that its client can decode [MQTT-3.1.2-2]."""
    with WireClient(address) as client:
        connect = bytearray(Connect("c", True, version=4).encode(4))
        connect[8] = level
        client.send(bytes(connect))
        assert client.socket.recv(100).hex() == answer
        assert client.socket.recv(100) == b""


@pytest.mark.parametrize("data", ["c000", "300500016178", "e000", "82060001000161", "62020001", "f000", "0000"])
def test_before_connect(address: Address, data: str) -> None:
    """Any other packet before CONNECT closes the connection without an answer [MQTT-3.1.0-1]."""
    with WireClient(address) as client:
        client.send(bytes.fromhex(data))
        assert client.expect_close() is None


@pytest.mark.parametrize("version", [4, 5])
def test_oversize(address: Address, version: int) -> None:
    """A packet above max_packet_size is refused as soon as its length is known: 0x95 in MQTT 5."""
    with connected(address, version) as client:
        client.publish("large", bytes(LIMIT - 100), 1)
        client.send(b"\x30\x80\x80\x80\x01")
        last = client.expect_close()
    assert isinstance(last, Disconnect) if version == 5 else last is None
    if isinstance(last, Disconnect):
        assert last.reason_code == reason_codes.PACKET_TOO_LARGE


@pytest.mark.parametrize("version", [4, 5])
def test_what_came_before_counts(address: Address, version: int) -> None:
    """Packets before a malformed one in the same write are handled and answered; those after it are not."""
    with connected(address, version) as client, connected(address, version) as other:
        other.subscribe("before/#")
        client.send(
            Publish(b"before/1", b"x", 1, packet_id=7),
            bytes.fromhex("0000"),
            Publish(b"before/2", b"x", 1, packet_id=8),
        )
        assert other.receive_message().topic == b"before/1"
        other.expect_nothing_more()
        received = []
        try:
            while True:
                received.append(client.receive())
        except ConnectionError:
            pass
        assert [type(packet).__name__ for packet in received] == ["Puback", "Disconnect"][: version - 3]


def test_every_refusal_is_logged(broker: BrokerProcess, address: Address) -> None:
    """The log has one line for each refusal: the client, the reason and what would be right."""
    with connected(address, 5, client_id="wrong-one") as client:
        client.send(b"\x00\x00")
        client.expect_close()

    def refusals() -> list[dict[str, Any]]:
        return [line for line in events(broker, "client_refused") if line["client_id"] == "wrong-one"]

    wait_until(lambda: refusals() != [], "the refusal")
    (line,) = refusals()
    assert line["reason"] == "Malformed packet"
    assert "reserved" in line["detail"]
