"""The request of a WebSocket handshake: what is behind it in the same bytes, and what cannot be answered as it is."""

import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from unittest.mock import MagicMock

import pytest

from broker.connection.newcomers import MOST_HELD
from broker.server.frame_turns import FrameTurns
from broker.server.websocket import WebSocketTransport
from broker.server.websocket_frames import MOST_EARLY
from config.models import WebSocket
from protocol.connect import Connect
from protocol.ping import Pingreq
from tests.broker.conftest import Start
from tests.support.broker.events import wait_for_event
from tests.support.brokers import Listener
from tests.support.process import Address, BrokerProcess

pytestmark = pytest.mark.once

SECONDS = 10.0
REQUEST = (
    b"GET /mqtt HTTP/1.1\r\nHost: broker\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n"
)
NO_MASK = bytes(4)


@pytest.fixture
def broker(start: Start) -> Iterator[BrokerProcess]:
    """A broker that listens on WebSocket; it must not have printed a traceback at the end."""
    running = start((Listener("ws", websocket=True),))
    yield running
    running.assert_healthy()


def answer(address: Address, *pieces: bytes, until: bytes = b"") -> bytes:
    """What the broker answers to these writes, up to these bytes or until it closes."""
    received = b""
    with socket.create_connection(address, timeout=SECONDS) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for piece in pieces:
            client.sendall(piece)
        while (not until or until not in received) and (data := client.recv(4096)):
            received += data
    return received


def frame(payload: bytes) -> bytes:
    """A binary frame of a client."""
    return bytes((0x82, 0x80 | len(payload))) + NO_MASK + payload


@pytest.mark.parametrize("size", [1, 50, 1_000])
def test_connect_behind_the_request(broker: BrokerProcess, size: int) -> None:
    """A client may send CONNECT without waiting for the response, in any pieces."""
    data = REQUEST + frame(Connect("x", True, version=5).encode(5))
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    received = answer(broker.address("ws"), *pieces, until=b"\x20")
    assert received.startswith(b"HTTP/1.1 101 ")


@pytest.mark.parametrize("behind", [b"Se", frame(b"x"), b"\x89\x80" + NO_MASK, b"\x88\x80" + NO_MASK, b"\r\n\r\n"])
def test_refused_with_more_behind_it(broker: BrokerProcess, behind: bytes) -> None:
    """A request for another path is answered, whatever is behind it: frames of all kinds, or none."""
    assert answer(broker.address("ws"), REQUEST.replace(b"/mqtt", b"/") + behind).startswith(b"HTTP/1.1 404 ")


@pytest.mark.parametrize(
    "request_line",
    [b"HEAD / HTTP/1.1", b"HEAD /mqtt HTTP/1.1", b"OPTIONS * HTTP/1.0", b"POST /mqtt HTTP/1.1", b"DELETE /x HTTP/1.1"],
)
@pytest.mark.parametrize("size", [1, 1_000])
def test_other_methods(broker: BrokerProcess, request_line: bytes, size: int) -> None:
    """HEAD, OPTIONS, POST and others, as health checks and scripts send them, are answered with 405 and no body."""
    data = request_line + b"\r\nHost: broker\r\nContent-Length: 3\r\n\r\n"
    received = answer(broker.address("ws"), *(data[at : at + size] for at in range(0, len(data), size)))
    head, _, body = received.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 405 ")
    assert b"\r\nAllow: GET" in head
    assert body == b""


def test_other_method_with_upgrade(broker: BrokerProcess) -> None:
    """A handshake by POST, with frames behind it, is no handshake; its large headers are bounded as those of GET."""
    post = REQUEST.replace(b"GET ", b"POST ") + frame(Connect("x", True, version=5).encode(5))
    assert answer(broker.address("ws"), post).startswith(b"HTTP/1.1 405 ")
    assert answer(broker.address("ws"), b"POST / HTTP/1.1\r\nCookie: " + b"x" * 17_000).startswith(b"HTTP/1.1 431 ")


def test_several_paths(start: Start) -> None:
    """With several paths each is served, and others are told all of them."""
    listener = {"name": "ws", "bind": "127.0.0.1:0", "websocket": {"path": ["/mqtt", "/"]}}
    address = start(sections={"listeners": [listener]}).address("ws")
    for path in (b"/mqtt", b"/", b"/?token=x"):
        request = REQUEST.replace(b"/mqtt", path)
        assert answer(address, request, until=b"\r\n\r\n").startswith(b"HTTP/1.1 101 ")
    refused = answer(address, REQUEST.replace(b"/mqtt", b"/other"))
    assert refused.startswith(b"HTTP/1.1 404 ")
    assert refused.endswith(b"MQTT is at /mqtt and /\n")


@pytest.mark.parametrize(
    "header", [b"Origin: https://\xff", b"Sec-WebSocket-Key: \xff", b"Connection: \xc3\xa9", b"upgrade: \xff"]
)
def test_header_that_is_not_ascii(broker: BrokerProcess, header: bytes) -> None:
    """The headers of the handshake are ASCII; others, such as cookies, may be anything."""
    request = REQUEST.replace(b"Host: broker", header)
    assert answer(broker.address("ws"), request).startswith(b"HTTP/1.1 400 ")
    cookie = REQUEST.replace(b"Host: broker", b"Cookie: a=\xff")
    assert answer(broker.address("ws"), cookie, until=b"\r\n\r\n").startswith(b"HTTP/1.1 101 ")


def test_many_frames(broker: BrokerProcess) -> None:
    """A client that sends frame after frame is closed (1008) unless it has a session; with one all are handled."""
    address, empty = broker.address("ws"), frame(b"") * (2 * MOST_EARLY)
    assert struct.pack("!H", 1008) in answer(address, REQUEST, empty, until=b"no session")
    connect = frame(Connect("x", True, version=5).encode(5))
    assert b"no session" not in answer(address, REQUEST + connect + empty, frame(Pingreq().encode(5)), until=b"\xd0\0")


def test_large_request(start: Start) -> None:
    """A request of more than 16 KiB is refused before its end, with the reason in the log."""
    broker = start((Listener("ws", websocket=True),), sections={"log": {"level": "debug", "format": "json"}})
    request = REQUEST.removesuffix(b"\r\n") + (b"Cookie: " + b"x" * 4_000 + b"\r\n") * 3
    assert answer(broker.address("ws"), request, b"\r\n", until=b"\r\n\r\n").startswith(b"HTTP/1.1 101 ")
    assert answer(broker.address("ws"), request + b"Cookie: " + b"x" * 5_000).startswith(b"HTTP/1.1 431 ")
    (event,) = wait_for_event(broker, "websocket_refused")
    assert event["reason"] == "431: the request is larger than 16384 bytes"


def test_incomplete_request_is_counted() -> None:
    """All bytes of a request count as held until it is answered, not only those of its last line."""
    transport = WebSocketTransport(WebSocket(), 0, MagicMock(), FrameTurns(), lambda _: None, lambda: True)
    transport.connection_made(MagicMock())
    for piece, held in ((b"GET /mqtt HTTP/1.1\r\n", 20), (b"Host: x\r\n", 29), (b"Cook", 33)):
        transport.data_received(piece)
        assert transport.get_extra_info("held") == held


@pytest.mark.parametrize(
    ("request_lines", "status", "why"),
    [
        (b"GET / HTTP/1.0\r\nHost: broker\r\n\r\n", 400, "HTTP/1.0"),
        (b"GET /mqtt\r\n", 400, "the first line is not one of HTTP"),
        (b"Hello broker\n", 400, "the first line is not one of HTTP"),
        (b"get /mqtt HTTP/1.1\r\nHost: broker\r\n\r\n", 400, "method get"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0", 505, "HTTP/2.0"),
        (b"GET /mqtt HTTP/1.1\r\nno header\r\n\r\n", 400, "invalid HTTP header line"),
    ],
)
@pytest.mark.parametrize("size", [1, 1_000])
def test_request_that_is_none(start: Start, request_lines: bytes, status: int, why: str, size: int) -> None:
    """What is no request of HTTP/1.1 is answered and closed; the answer and the log say why."""
    broker = start((Listener("ws", websocket=True),), sections={"log": {"level": "debug", "format": "json"}})
    pieces = [request_lines[at : at + size] for at in range(0, len(request_lines), size)]
    with suppress(ConnectionError):  # the broker may have closed before the last piece
        received = answer(broker.address("ws"), *pieces)
        assert received.startswith(f"HTTP/1.1 {status} ".encode())
        assert received.endswith(f"\r\n\r\n{why}: a WebSocket begins with GET, a path and HTTP/1.1\n".encode())
    said = f"not a WebSocket handshake: {why}, answered with {status}"
    broker.wait_for_output(lambda lines: any(said in line for line in lines), "why")


@pytest.mark.parametrize(
    ("changed", "to", "why"),
    [
        (b"/mqtt", b"/other?token=hush&hush", "404: path '/other' with a query"),
        (b"/mqtt", b"/other?hush", "404: path '/other' with a query"),
        (b"/mqtt", b"http://user:hush@broker/", "404: a path that does not begin with /"),
        (b"Host: broker", b"Authorization Bearer hush", "invalid HTTP header line"),
        (b"Host: broker", b"Authorization: Bearer hush\0", "invalid HTTP header value"),
    ],
)
def test_secrets_of_a_refused_request(start: Start, changed: bytes, to: bytes, why: str) -> None:
    """Queries and headers, where clients write tokens, are in no line of the log; the path is."""
    broker = start((Listener("ws", websocket=True),), sections={"log": {"level": "debug", "format": "json"}})
    answer(broker.address("ws"), REQUEST.replace(changed, to))
    broker.wait_for_output(lambda lines: any(why in line and "disconnected" in line for line in lines), "why")
    assert "hush" not in broker.stderr


def test_frames_that_do_not_end(broker: BrokerProcess) -> None:
    """What incomplete frames of clients without a session hold is bounded: past 16 MiB the oldest are closed."""
    size = 100_000
    beginning = bytes((0x82, 0xFF)) + struct.pack("!Q", 2 * size) + NO_MASK + bytes(size)
    with ExitStack() as stack:
        sockets = []
        for _ in range(MOST_HELD // size + 2):
            client = stack.enter_context(socket.create_connection(broker.address("ws"), timeout=SECONDS))
            client.sendall(REQUEST)
            assert client.recv(1_000).startswith(b"HTTP/1.1 101 ")
            client.sendall(beginning)
            sockets.append(client)
        with suppress(ConnectionResetError):
            while sockets[0].recv(100):
                pass
        assert answer(broker.address("ws"), REQUEST, frame(Connect("x", True, version=5).encode(5)), until=b"\x20")
