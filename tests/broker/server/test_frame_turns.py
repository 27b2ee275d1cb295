"""Frames that wait for a turn of the event loop: who comes when, and what happens to the connection meanwhile."""

import asyncio
from collections import deque
from collections.abc import Callable
from unittest.mock import MagicMock

from broker.server.frame_turns import TURN_FRAMES, FrameTurns
from broker.server.websocket import WebSocketTransport
from config.models import WebSocket
from tests.broker.server.test_websocket_request import REQUEST, frame


class Loop(deque[Callable[[], None]]):
    """The callbacks of an event loop."""

    def turn(self) -> None:
        """Call those that are there."""
        for _ in range(len(self)):
            self.popleft()()

    def run(self) -> None:
        """Turn until there are none."""
        while self:
            self.turn()


class Client:
    """A connection with its WebSocket open; it notes what MQTT gets and whether it is read."""

    def __init__(self, turns: FrameTurns) -> None:
        self.received = b""
        self.reading = True
        self.ended: list[object] = []
        self.upper, self.below = MagicMock(), MagicMock()
        self.upper.data_received = self._receive
        self.upper.connection_lost = self.ended.append
        self.below.pause_reading = lambda: self._read(False)
        self.below.resume_reading = lambda: self._read(True)
        self.below.get_write_buffer_size.return_value = 0
        self.transport = WebSocketTransport(WebSocket(), 0, self.upper, turns, lambda _: None, lambda: False)
        self.transport.connection_made(self.below)
        self.transport.data_received(REQUEST)

    def _receive(self, data: bytes) -> None:
        self.received += data

    def _read(self, on: bool) -> None:
        self.reading = on


def test_bounded_turn() -> None:
    """In one turn a bounded number of frames is handled; the client is not read until all are."""
    loop = Loop()
    client = Client(FrameTurns(loop.append))
    client.transport.data_received(frame(b"x") * (3 * TURN_FRAMES))
    for turns in (1, 2, 3):
        assert len(client.received) == turns * TURN_FRAMES
        assert client.reading == (turns == 3)
        loop.turn()


def test_connections_take_turns() -> None:
    """Who has sent little need not wait until a flood is over."""
    loop = Loop()
    turns = FrameTurns(loop.append)
    flood, other = Client(turns), Client(turns)
    flood.transport.data_received(frame(b"") * (100 * TURN_FRAMES))
    other.transport.data_received(frame(b"x"))
    for _ in range(3):
        loop.turn()
    assert other.received == b"x"
    assert other.reading
    assert not flood.reading
    loop.run()
    assert flood.reading


def test_paused_by_mqtt() -> None:
    """Frames wait while MQTT does not read, and come before what the client sends later."""
    loop = Loop()
    client = Client(FrameTurns(loop.append))
    client.transport.data_received(frame(b"1") * (TURN_FRAMES + 1))
    client.transport.pause_reading()
    loop.run()
    assert len(client.received) == TURN_FRAMES
    client.transport.resume_reading()
    loop.run()
    assert client.reading
    client.transport.data_received(frame(b"2"))
    assert client.received == b"1" * (TURN_FRAMES + 1) + b"2"


def test_connection_lost() -> None:
    """MQTT gets all that came before the connection broke, then the error, once."""
    loop = Loop()
    client = Client(FrameTurns(loop.append))
    client.transport.data_received(frame(b"x") * (3 * TURN_FRAMES))
    error = ConnectionResetError()
    client.transport.connection_lost(error)
    assert client.ended == []
    loop.run()
    assert len(client.received) == 3 * TURN_FRAMES
    assert client.ended == [error]


def test_aborted_after_it_was_lost() -> None:
    """A connection that is aborted while frames of it wait ends without them."""
    loop = Loop()
    client = Client(FrameTurns(loop.append))
    client.transport.data_received(frame(b"x") * (3 * TURN_FRAMES))
    client.transport.connection_lost(None)
    client.transport.abort()
    loop.run()
    assert len(client.received) == TURN_FRAMES
    assert client.ended == [None]


def test_close_waits_for_the_close_frame() -> None:
    """A connection that MQTT closes while frames wait is closed when the client's close frame has come behind them."""
    loop = Loop()
    client = Client(FrameTurns(loop.append))
    close = b"\x88\x80" + bytes(4)
    client.transport.data_received(frame(b"x") * (3 * TURN_FRAMES) + close)
    client.transport.close()
    client.below.close.assert_not_called()
    loop.run()
    client.below.close.assert_called_once()
    assert len(client.received) == TURN_FRAMES


def test_reason_before_the_close_frame() -> None:
    """When MQTT ends with a reason, the client can read it: the transport waits for the close frame of the client."""
    client = Client(FrameTurns(Loop().append))

    def refuse(_: bytes) -> None:
        client.transport.write(b"reason")
        client.transport.write_eof()

    client.upper.data_received = refuse
    client.upper.eof_received.return_value = False
    client.transport.data_received(frame(b"x"))
    client.upper.eof_received.assert_not_called()
    client.below.close.assert_not_called()
    client.transport.data_received(b"\x88\x80" + bytes(4))
    client.upper.eof_received.assert_called_once()
    client.below.close.assert_called_once()


def test_connection_that_fails() -> None:
    """It is aborted and reported, and the others go on."""

    async def run() -> None:
        reported: list[object] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: reported.append(context["exception"]))
        turns, failing, error = FrameTurns(), MagicMock(), ValueError()
        failing.go_on.side_effect = error
        gone_on = asyncio.Event()
        other = MagicMock(go_on=gone_on.set)
        turns.wait(failing)
        turns.wait(other)
        await gone_on.wait()
        failing.abort.assert_called_once()
        assert reported == [error]

    asyncio.run(run())
