"""A stream of events ends with its events, its peer, or an error."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from broker.admin.api.event_stream import EventStream


class Peer:
    """An ASGI server's side of one request."""

    def __init__(self) -> None:
        self.left = asyncio.Event()
        self.got: list[bytes] = []

    async def receive(self) -> dict[str, object]:
        """Wait until the peer leaves, and say so."""
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: dict[str, Any]) -> None:
        """Part of the answer."""
        if message["type"] == "http.response.body":
            self.got.append(message["body"])


class Events:
    """Events of which the last one waits, fails, or ends the stream."""

    def __init__(self, last: Exception | asyncio.Event | None) -> None:
        self._last = last
        self.closed = False

    async def run(self) -> AsyncGenerator[str, None]:
        """The events."""
        try:
            yield "data: 1\n\n"
            if isinstance(self._last, Exception):
                raise self._last
            if self._last is not None:
                self._last.set()
                await asyncio.get_running_loop().create_future()
        finally:
            self.closed = True


SCOPE: dict[str, object] = {"type": "http", "headers": []}


async def test_events_end() -> None:
    """The answer ends with the events, though the peer is still there."""
    peer, events = Peer(), Events(None)
    await EventStream(events.run())(SCOPE, peer.receive, peer.send)
    assert peer.got == [b"data: 1\n\n", b""]
    assert events.closed


async def test_peer_leaves() -> None:
    """When the peer leaves, the events are closed, though they wait for something."""
    peer, waits = Peer(), asyncio.Event()
    events = Events(waits)
    answer = asyncio.ensure_future(EventStream(events.run())(SCOPE, peer.receive, peer.send))
    await waits.wait()
    peer.left.set()
    await answer
    assert peer.got == [b"data: 1\n\n"]
    assert events.closed


async def test_error() -> None:
    """An error of the events is the server's to log."""
    peer, events = Peer(), Events(ValueError("wrong"))
    with pytest.raises(ValueError, match="wrong"):
        await EventStream(events.run())(SCOPE, peer.receive, peer.send)


async def test_cancelled() -> None:
    """When the server stops, the events are closed before the answer is over."""
    peer, waits = Peer(), asyncio.Event()
    events = Events(waits)
    answer = asyncio.ensure_future(EventStream(events.run())(SCOPE, peer.receive, peer.send))
    await waits.wait()
    answer.cancel()
    with pytest.raises(asyncio.CancelledError):
        await answer
    assert events.closed
