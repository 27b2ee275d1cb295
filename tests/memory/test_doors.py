"""What clients fill on their way in: answers about logins, verified passwords, frames of WebSocket; and a trace."""

import asyncio
from typing import Any, Final
from unittest.mock import MagicMock

import pytest

from broker.admin.trace.trace import MOST_PENDING, MOST_TOPICS, Trace, Wanted
from broker.auth.authenticators.answer_cache import LARGEST, AnswerCache
from broker.auth.authenticators.authenticator import Login, No
from broker.auth.authenticators.passwords import MOST_VERIFIED, Passwords
from broker.auth.identity import Identity
from broker.server.frame_turns import FrameTurns
from broker.server.websocket import LEAST_FRAME, WebSocketTransport
from config.http import Http
from config.models import WebSocket
from protocol.replies import MOST_TEXT
from tests.broker.server.test_websocket_request import REQUEST
from tests.memory.tables import OF_CLIENTS, OF_STRANGERS
from tests.memory.traced import tracing
from tests.support.broker.local import LocalBroker

pytestmark = pytest.mark.once

SIZE: Final = Http(url="https://login.example.com/").cache_size


@pytest.mark.parametrize("refused", [False, True])
def test_answers_about_logins(refused: bool) -> None:
    """However many logins are asked about, the cache keeps digests of them and small answers only."""
    cache = AnswerCache(SIZE, 30.0, lambda: 0.0)
    with tracing() as traced:
        for number in range(2 * SIZE):
            roles = frozenset({"role".ljust(200, "x") + f"{number}"})
            answer = No.DENIED if refused else Identity(f"{number}".ljust(LARGEST - 700, "x"), roles, "http")
            cache.put(cache.key(Login(f"{number}".ljust(2_000, "x"), b"p" * 2_000)), answer)
        assert len(cache) == SIZE
        assert traced.bytes() < OF_STRANGERS["answers about logins"]


def test_a_large_answer_is_not_kept() -> None:
    """A user of whom the service says very much is asked about each time."""
    cache, login = AnswerCache(SIZE, 30.0, lambda: 0.0), Login("user", b"password")
    for answer in (Identity("x" * LARGEST), Identity("user", frozenset(f"role {number}" for number in range(100)))):
        cache.put(cache.key(login), answer)
        assert cache.get(cache.key(login)) is None


def test_verified_passwords() -> None:
    """However long names and passwords are, digests of them are kept; a fifth of the most is measured."""

    class Pool:
        async def run(self, *_: object) -> bool:
            return True

    pool: Any = Pool()
    passwords = Passwords(pool)
    name = "x" * 2_000

    async def log_in() -> None:
        for number in range(MOST_VERIFIED // 5):
            assert await passwords.match(f"{number}{name}", "hash", Login("", b"password"))

    with tracing() as traced:
        asyncio.run(log_in())
        assert 5 * traced.bytes() < OF_CLIENTS["verified passwords"]


def test_an_incomplete_websocket_frame() -> None:
    """A frame is held until it is complete; one that would be larger than allowed is not begun."""
    below = MagicMock(get_write_buffer_size=lambda: 0)
    transport = WebSocketTransport(WebSocket(), 0, MagicMock(), FrameTurns(), lambda _: None, lambda: False)
    transport.connection_made(below)
    transport.data_received(REQUEST)
    with tracing() as traced:
        transport.data_received(b"\x82\xff" + LEAST_FRAME.to_bytes(8) + bytes(4))
        for _ in range(LEAST_FRAME // 65_536 - 1):
            transport.data_received(bytes(65_536))
        assert traced.bytes() < OF_CLIENTS["an incomplete WebSocket frame"]
        held = transport.get_extra_info("held")
        assert isinstance(held, int)
        assert LEAST_FRAME - 65_536 <= held <= LEAST_FRAME
        transport.data_received(bytes(65_536))  # it is complete
        transport.data_received(b"\x82\xff" + (LEAST_FRAME + 1).to_bytes(8) + bytes(4) + bytes(65_536))
    assert "exceeds limit" in str(transport.get_extra_info("failure"))


def test_a_trace() -> None:
    """Topics that are looked at, and lines that nobody reads, are bounded, whatever clients send."""
    with LocalBroker() as local:
        trace = Trace(local.broker, Wanted(topic_filter="t/#"), 10 * MOST_PENDING, payload=False)
        trace.active = True
        text = "x" * MOST_TEXT
        tap: Any = MagicMock()
        tap.connection.client_id = tap.connection.client.identity.user = text
        tap.socket.host.return_value = "2001:db8::1"
        with tracing() as traced:
            for number in range(MOST_TOPICS + 1_000):
                assert trace.concerns(f"t/{number}/".encode().ljust(1_000, b"x"))
                assert trace.concerns(f"t/{number}/".encode().ljust(20_000, b"x"))
                trace.tell(tap, "received", "PUBLISH", f"{number}{text}", f"{number}{text}")
            assert traced.bytes() < OF_CLIENTS["a trace"]
