"""Connections with TLS or WebSocket, whose home is another cell: this one keeps the frames, and relays what is in them.

Nothing is read from one end while the other end does not take what was read before, so a relay holds little.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Final, cast

from broker.cluster.passing import RETRY, Passed, decoded_head, frame_of, lengths_of

HIGH: Final = 65_536
"""Bytes that one end may leave untaken until the other is not read any more."""
CLOSE_TIMEOUT: Final = 5.0
"""Seconds in which a client has to take what is left when its home has closed."""


class Relay:
    """The protocol above the client's transport, in place of a connection."""

    def __init__(
        self, transport: asyncio.Transport, passed: Passed, refusal: bytes, on_end: Callable[[], None]
    ) -> None:
        """`refusal`: what the client gets if the home does not come up."""
        self._client: asyncio.Transport | None = transport
        """None once it is lost, so that nothing refers to itself."""
        self._frame = frame_of(passed)
        self._refusal = refusal
        self._on_end = on_end
        self._home: asyncio.Transport | None = None
        self._client_ended = self._home_ended = False
        """Whether one sends no more; when both do not, the connection is over."""
        transport.set_protocol(cast("asyncio.Protocol", self))
        transport.set_write_buffer_limits(HIGH)
        transport.pause_reading()

    async def run(self, path: Path, patience: float) -> None:
        """Connect to the home; tell the client if it is not up for so many seconds."""
        loop = asyncio.get_running_loop()
        until = loop.time() + patience
        while self._client is not None:
            try:
                await loop.create_unix_connection(lambda: cast("asyncio.Protocol", _Home(self)), str(path))
                return
            except OSError:
                if loop.time() >= until:
                    self.write(self._refusal)
                    self.home_lost()
                    return
                await asyncio.sleep(RETRY)

    def abort(self) -> None:
        """Close both ends at once."""
        for each in (self._client, self._home):
            if each is not None:
                each.abort()

    # -- what the client's transport calls

    def data_received(self, data: bytes) -> None:
        """Pass it on."""
        if self._home is not None:
            self._home.write(data)

    def eof_received(self) -> bool:
        """The client sends no more; the home closes."""
        self._client_ended = True
        if self._home is not None and self._home.can_write_eof():
            self._home.write_eof()
        return not self._home_ended

    def pause_writing(self) -> None:
        """The client does not take what comes from its home."""
        if self._home is not None:
            self._home.pause_reading()

    def resume_writing(self) -> None:
        """It does."""
        if self._home is not None:
            self._home.resume_reading()

    def connection_lost(self, error: Exception | None) -> None:
        """The client has gone: its home sees the end of its stream."""
        self._client = None
        self._on_end()
        if self._home is not None:
            self._home.close()

    # -- what the home's end calls

    def reached(self, home: asyncio.Transport) -> None:
        """The home is connected."""
        if self._client is None:
            home.close()
            return
        self._home = home
        home.set_write_buffer_limits(HIGH)
        home.write(self._frame)
        self._frame = b""
        self._client.resume_reading()

    def write(self, data: bytes) -> None:
        """Pass to the client what comes from its home."""
        if self._client is not None:
            self._client.write(data)

    def hold(self, on: bool) -> None:
        """The home does not take what comes from the client, or does again."""
        if self._client is not None and on:
            self._client.pause_reading()
        elif self._client is not None:
            self._client.resume_reading()

    def end_of_home(self) -> bool:
        """The home writes no more: the client gets the time to read the last of it. False if it has ended, too."""
        self._home_ended = True
        if self._client is not None and not self._client_ended and self._client.can_write_eof():
            self._client.write_eof()
        return not self._client_ended

    def home_lost(self) -> None:
        """The home has closed, or its cell has ended."""
        self._home = None
        if self._client is not None:
            self._client.close()
            asyncio.get_running_loop().call_later(CLOSE_TIMEOUT, self.abort)


class _Home:
    """The protocol of the connection to the home."""

    def __init__(self, relay: Relay) -> None:
        self._relay = relay

    def connection_made(self, transport: asyncio.Transport) -> None:
        self._relay.reached(transport)

    def data_received(self, data: bytes) -> None:
        self._relay.write(data)

    def eof_received(self) -> bool:
        return self._relay.end_of_home()

    def pause_writing(self) -> None:
        self._relay.hold(True)

    def resume_writing(self) -> None:
        self._relay.hold(False)

    def connection_lost(self, error: Exception | None) -> None:
        self._relay.home_lost()


class Relayed:
    """The protocol of a relayed connection at the home, until it is known whose it is."""

    def __init__(self, following: Callable[[Passed], asyncio.Protocol]) -> None:
        """`following`: the protocol of the client."""
        self._following = following
        self._transport: asyncio.Transport | None = None
        self._received = b""

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Wait for what the other cell says of the client."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Go on with what the client has sent, once it is there."""
        received = self._received = self._received + data
        lengths = lengths_of(received)
        transport = self._transport
        if lengths is None or len(received) < lengths.end or transport is None:
            return
        passed = decoded_head(received, lengths)
        rest = received[lengths.end :]
        protocol = self._following(passed)
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        protocol.data_received(passed.data + rest)

    def eof_received(self) -> bool:
        """The other cell has ended."""
        return False

    def connection_lost(self, error: Exception | None) -> None:
        """The same."""

    def pause_writing(self) -> None:
        """Nothing is written."""

    def resume_writing(self) -> None:
        """Nothing is written."""
