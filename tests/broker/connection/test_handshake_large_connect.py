"""A CONNECT that is too large is answered in its version before its rest has come: 0x95 in MQTT 5, else nothing."""

import socket
from contextlib import suppress

import pytest

from broker.connection.newcomers import MOST_CONNECT
from tests.broker.conftest import Start
from tests.support.broker.events import wait_for_event
from tests.support.process import Address

SECONDS = 10.0
TOO_LARGE = bytes.fromhex("2003009500")
MQTT = b"\0\x04MQTT"
HEADER = b"\x10\xff\xff\x7f"
"""The fixed header of a CONNECT of 2 MiB."""


def answer(address: Address, *pieces: bytes) -> bytes:
    """What comes back until the broker closes."""
    received = b""
    with socket.create_connection(address, timeout=SECONDS) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with suppress(ConnectionError):  # the broker may close before all pieces are there
            for piece in pieces:
                client.sendall(piece)
            while data := client.recv(100):
                received += data
    return received


@pytest.mark.parametrize(
    ("beginning", "expected"),
    [
        (MQTT + b"\x05", TOO_LARGE),
        (MQTT + b"\x05\x02\0\x3c\0\0\x04long", TOO_LARGE),
        (MQTT + b"\x04", b""),
        (MQTT + b"\x84", b""),
        (b"\0\x06MQIsdp\x03", b""),
        (MQTT + b"\x03", bytes.fromhex("20020001")),
        (MQTT + b"\x06", bytes.fromhex("2003008400")),
        (b"\0\x04HTTP\x05", b""),
        (b"\xff\xff", b""),
        (b"\0\0", b""),
    ],
)
def test_answer(address: Address, beginning: bytes, expected: bytes) -> None:
    """The answer depends on what the CONNECT begins with, whether that comes at once or byte by byte."""
    assert answer(address, HEADER + beginning) == expected
    data = HEADER + beginning
    assert answer(address, *(data[at : at + 1] for at in range(len(data)))) == expected


def test_rest_that_follows(start: Start) -> None:
    """A client that goes on sending gets the answer too; the log has size and limit."""
    broker = start()
    body = MQTT + b"\x05\x02\0\x3c\0" + b"\0\x01x" + bytes(200_000)
    length = len(body)
    header = bytes((0x10, length & 0x7F | 0x80, length >> 7 & 0x7F | 0x80, length >> 14))
    assert answer(broker.address(), header + body) == TOO_LARGE
    (event,) = wait_for_event(broker, "client_refused")
    assert event["reason"] == "Packet too large"
    assert (event["size"], event["limit"]) == (length + 4, MOST_CONNECT)
