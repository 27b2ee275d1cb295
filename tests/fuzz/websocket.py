"""WebSocket as a target: what a client sends to a listener, from its handshake on, in pieces.

The first byte of an input chooses the settings and what MQTT does with what it gets, the second one how long the pieces
are.
"""

import asyncio
import random
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple, cast

from websockets.client import ClientProtocol
from websockets.frames import Frame, Opcode
from websockets.protocol import OPEN
from websockets.uri import parse_uri

from broker.server.frame_turns import TURN_FRAMES, FrameTurns
from broker.server.websocket import WebSocketTransport
from config.models import WebSocket
from tests.fuzz.raw import Raw

END_OF_HANDSHAKE: Final = b"\r\n\r\n"
CONTROL: Final = 8
"""Operation codes from here on are those of control frames."""
LONGEST_CONTROL: Final = 125
FEW: Final = 2
"""Frames in a turn of the event loop, when the stream comes in pieces: so some wait."""


class Options(NamedTuple):
    """What an input chooses."""

    origins: bool
    """There is a list of origins."""
    echoes: bool
    """MQTT writes what it gets."""
    closes: bool
    """MQTT closes after the first bytes."""
    lingers: bool
    """MQTT closes only later when the client has ended."""

    @classmethod
    def of(cls, byte: int) -> "Options":
        """Read the bits of a byte."""
        return cls(*(bool(byte >> bit & 1) for bit in range(4)))


class Below:
    """The transport of TCP or TLS."""

    def __init__(self) -> None:
        self.written = b""
        self.closed = False

    def write(self, data: bytes) -> None:
        """Bytes for the client."""
        assert not self.closed, "written after the connection was closed"
        self.written += data

    def writelines(self, pieces: list[bytes]) -> None:
        """Bytes for the client."""
        self.write(b"".join(pieces))

    def close(self) -> None:
        """Close."""
        self.closed = True

    abort = close

    def is_closing(self) -> bool:
        """Whether it is closed."""
        return self.closed

    def pause_reading(self) -> None:
        """Ignored."""

    def resume_reading(self) -> None:
        """Ignored."""

    def get_extra_info(self, name: str, default: object = None) -> object:
        """Nothing is known."""
        return default

    def get_write_buffer_size(self) -> int:
        """The client reads everything."""
        return 0


class Above:
    """The protocol of MQTT."""

    def __init__(self, options: Options) -> None:
        self.received = b""
        self.ended = False
        self.closed = False
        self._options = options
        self._transport: WebSocketTransport | None = None

    def connection_made(self, transport: WebSocketTransport) -> None:
        """The connection is accepted."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """The payload of frames; without any the transport holds an incomplete one."""
        transport = self._transport
        assert transport is not None
        assert data or transport.get_extra_info("held"), "nothing is passed up, and nothing is held"
        assert not self.ended, "data after the end"
        assert not self.closed, "data after MQTT has closed"
        self.received += data
        if self._options.echoes:
            transport.writelines([data[:1], data[1:]])
        if self._options.closes:
            self.closed = True
            transport.close()

    def eof_received(self) -> bool:
        """The client's stream has ended."""
        assert not self.ended, "the end is reported twice"
        self.ended = True
        return self._options.lingers


class Outcome(NamedTuple):
    """What has come of a stream."""

    received: bytes
    ended: bool
    failure: object
    below: Below


class WebSocketStream(Raw):
    """MQTT gets the payload of valid frames, the same for any pieces; the client gets a response and valid frames."""

    name = "websocket"
    head = 2
    parts = (
        b"GET /mqtt HTTP/1.1\r\n",
        b"GET /other HTTP/1.1\r\n",
        b"Host: broker\r\n",
        b"Upgrade: websocket\r\nConnection: keep-alive, Upgrade\r\n",
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n",
        b"Sec-WebSocket-Version: 13\r\n",
        b"Sec-WebSocket-Protocol: mqtt, chat\r\n",
        b"Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n",
        b"Origin: https://example.com\r\n",
        b"Origin: https://\xff\r\n",
        b"\r\n",
    )

    def piece(self, source: random.Random) -> bytes:
        """A frame, or a line of the handshake."""
        if source.random() < 0.3:
            return source.choice(self.parts)
        opcode = source.choice((0, 1, 2, 2, 2, 8, 9, 10, source.randrange(16)))
        head = source.choice((0x80, 0x80, 0, source.randrange(16) << 4)) | opcode
        payload = source.randbytes(source.choice((0, 1, 5, 125, 126, 300)))
        if opcode == Opcode.CLOSE:
            payload = source.choice((b"", b"\x03\xe8", b"\x03\xe8bye", b"\x03", b"\xff\xff\xff", b"\x03\xe9\xff"))
        length = len(payload) if source.random() < 0.9 else source.choice((126, 65_536, 2**20 + 1, 2**63))
        masked = 0x80 if source.random() < 0.95 else 0
        if length < 126:
            size = bytes((masked | length,))
        elif length < 65_536:
            size = bytes((masked | 126,)) + length.to_bytes(2)
        else:
            size = bytes((masked | 127,)) + length.to_bytes(8)
        return bytes((head,)) + size + source.randbytes(4 if masked else 0) + payload

    def check(self, data: bytes) -> None:
        """Pass the stream up whole and in pieces, and compare with what the standard says."""
        choice, size = (data[0], data[1]) if len(data) > 1 else (0, 0)
        stream = data[2:]
        options = Options.of(choice)
        whole = outcome([stream] if stream else [], options, TURN_FRAMES)
        cut = [stream[at : at + size] for at in range(0, len(stream), size)] if size else []
        pieces = outcome(cut, options, FEW) if size else whole
        for found in (whole, pieces):
            accepted, answer = _answer(found.below.written)
            expected = payload(stream.partition(END_OF_HANDSHAKE)[2]) if accepted else b""
            if options.closes:
                assert expected.startswith(found.received), "not what the client has sent"
            else:
                assert found.received == expected, "not what the client has sent"
            _check_frames(answer, found.received if options.echoes else b"")
        if not options.closes:
            assert pieces[:3] == whole[:3], "pieces make a difference"
            assert pieces.below.closed == whole.below.closed, "pieces make a difference"


def outcome(pieces: list[bytes], options: Options, frames: int) -> Outcome:
    """What comes of a stream, with so many frames in a turn of the event loop, up to the end of the connection."""
    settings = WebSocket(origins=["https://example.com"] if options.origins else [])
    below, above = Below(), Above(options)
    soon: deque[Callable[[], None]] = deque()
    turns = FrameTurns(soon.append, frames)
    upper = cast("asyncio.Protocol", above)
    transport = WebSocketTransport(settings, 1_000, upper, turns, lambda _: None, lambda: False)
    transport.connection_made(cast("asyncio.Transport", below))
    for piece in pieces:
        if below.closed:
            break
        transport.data_received(piece)
        while soon:
            soon.popleft()()
    ended = above.ended
    closed = below.closed
    if not closed:
        transport.eof_received()
        assert above.ended or above.closed, "the end of the stream is not reported"
        assert below.closed or options.lingers, "the connection stays open"
    failure = transport.get_extra_info("failure")
    below.closed = closed
    return Outcome(above.received, ended, failure, below)


def payload(frames: bytes) -> bytes:
    """The payload of binary messages, up to the first frame that ends the connection (RFC 6455, 5)."""
    received, inside = b"", False
    while len(frames) >= 2:
        first, second = frames[:2]
        final, opcode, length = first >> 7, first & 15, second & 127
        longer = {126: 2, 127: 8}.get(length, 0)
        start = 2 + longer + 4
        if longer:
            length = int.from_bytes(frames[2 : 2 + longer])
        if first & 0x70 or not second & 0x80 or len(frames) < start + length:
            break
        if opcode >= CONTROL:
            if opcode not in (Opcode.PING, Opcode.PONG) or not final or length > LONGEST_CONTROL:
                break
        elif opcode != (Opcode.CONT if inside else Opcode.BINARY):
            break
        else:
            mask = frames[start - 4 : start]
            received += bytes(byte ^ mask[at % 4] for at, byte in enumerate(frames[start : start + length]))
            inside = not final
        frames = frames[start + length :]
    return received


def _answer(written: bytes) -> tuple[bool, bytes]:
    """Whether the handshake was accepted, and the frames behind the response."""
    if not written:
        return False, b""
    head, end, frames = written.partition(END_OF_HANDSHAKE)
    assert end, "a response that is not complete"
    if head.startswith(b"HTTP/1.1 101 "):
        assert b"permessage-deflate" not in head, "compression is off"
        return True, frames
    assert head.startswith((b"HTTP/1.1 4", b"HTTP/1.1 505 ")), head.partition(b"\r\n")[0]
    return False, b""


def _check_frames(frames: bytes, echoed: bytes) -> None:
    """A strict client accepts the broker's frames."""
    client = ClientProtocol(parse_uri("ws://broker"), state=OPEN)
    if frames:
        client.receive_data(frames)
    assert client.parser_exc is None, client.parser_exc
    assert not client.reader.buffer, "half a frame"
    received = [frame for frame in client.events_received() if isinstance(frame, Frame)]
    data = b"".join(bytes(frame.data) for frame in received if frame.opcode is Opcode.BINARY)
    assert echoed.startswith(data), "not what MQTT has written"
    kinds = (Opcode.BINARY, Opcode.PONG, Opcode.CLOSE)
    assert all(frame.opcode in kinds for frame in received), "frames that are not for a broker to send"
