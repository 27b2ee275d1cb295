"""A WebSocket between a client's connection and its TCP or TLS transport (section 6 of MQTT 5).

A protocol for the transport below and a transport for the protocol above, like `TlsTransport`. The package `websockets`
parses the handshake and the client's frames; the broker's own frames are not masked, so their headers are made here.
Compression is not offered: it costs memory for each connection, and time for each message.
"""

import asyncio
import struct
from collections.abc import Callable
from typing import Final, cast, final

from websockets.frames import Opcode
from websockets.protocol import OPEN
from websockets.server import ServerProtocol
from websockets.typing import Origin, Subprotocol

from broker.server.frame_turns import FrameTurns
from broker.server.websocket_frames import Frames
from broker.server.websocket_request import WebSocketRequest
from config.models import WebSocket

SUBPROTOCOLS: Final = [Subprotocol("mqtt"), Subprotocol("mqttv3.1")]
"""What a client has to offer [MQTT-6.0.0-3]; the second one is what older clients say, whatever their version is."""
LEAST_FRAME: Final = 1024 * 1024
"""Bytes. A frame may hold several packets, so that it may be larger than `mqtt.max_packet_size`."""
MOST_ANSWERS: Final = 65_536
"""Bytes of pongs that may wait while the client reads nothing; past that the connection is aborted."""

_BINARY: Final = 0x80 | Opcode.BINARY


@final
class WebSocketTransport:
    """Duck-typed on both sides, like Connection: native classes cannot inherit asyncio's."""

    def __init__(
        self,
        settings: WebSocket,
        max_packet_size: int,
        upper: asyncio.Protocol,
        turns: FrameTurns,
        refused: Callable[[str], None],
        is_newcomer: Callable[[], bool],
    ) -> None:
        """`refused` is told why a handshake is; `is_newcomer`: whether the client has no session yet."""
        # A client that names no origin is no page in a browser; it could name any.
        origins = [*map(Origin, settings.origins), None] if settings.origins else None
        most_bytes = max(LEAST_FRAME, max_packet_size)
        self._protocol = ServerProtocol(origins=origins, subprotocols=SUBPROTOCOLS, max_size=most_bytes)
        self._request = WebSocketRequest(self._protocol, settings, refused)
        self._frames = Frames(self._protocol, most_bytes, is_newcomer)
        self._turns = turns
        self._upper = upper
        self._below: asyncio.Transport | None = None
        self._paused = False
        """Whether the protocol above has paused reading."""
        self._held_back = False
        """Whether the transport below is paused because frames wait."""
        self._closing = False
        self._lost = False
        """Whether the transport below is closed; the protocol above is told when it has got the frames that wait."""
        self._error: Exception | None = None
        self._end_reported = False
        self._failure = ""
        self._answers = 0

    # -- what the transport below calls

    def connection_made(self, below: asyncio.Transport) -> None:
        """The time limit of CONNECT includes the handshake of WebSocket."""
        self._below = below
        self._upper.connection_made(cast("asyncio.Transport", self))

    def data_received(self, data: bytes) -> None:
        """Pass the payload of frames up; answer pings and closes."""
        if not self._request.answered:
            if self._closing or self._end_reported:
                return
            data = self._request.read(data)
            self._failure = self._request.failure
        if data:
            self._frames.feed(data)
        self.go_on()

    def eof_received(self) -> bool:
        """The client's stream has ended, with or without a close frame."""
        if self._closing and self._below is not None:
            self._below.close()
        self._report_end()
        return True

    def connection_lost(self, error: Exception | None) -> None:
        """The transport below is closed; what it has passed up before is handled first."""
        self._lost = True
        self._error = error
        self._read_on()

    def pause_writing(self) -> None:
        """Pass it on: there is no buffer here."""
        self._upper.pause_writing()

    def resume_writing(self) -> None:
        """Pass it on."""
        self._upper.resume_writing()

    # -- what the protocol above calls

    def set_protocol(self, upper: asyncio.Protocol) -> None:
        """From now on this is the protocol above."""
        self._upper = upper

    def write(self, data: bytes) -> None:
        """Write one binary frame."""
        self.writelines([data])

    def writelines(self, pieces: list[bytes]) -> None:
        """Write all pieces as one binary frame."""
        if self._below is None or self._lost or self._protocol.state is not OPEN:
            return
        size = sum(map(len, pieces))
        if size:
            self._below.writelines([_header(size), *pieces])

    def pause_reading(self) -> None:
        """Pause the transport below, so that TCP slows the client."""
        self._paused = True
        if self._below is not None:
            self._below.pause_reading()

    def resume_reading(self) -> None:
        """Resume reading, with the frames that wait."""
        self._paused = False
        if self._frames.more:
            self._turns.wait(self)
        elif self._below is not None:
            self._below.resume_reading()

    def can_write_eof(self) -> bool:
        """Yes: with a close frame."""
        return True

    def write_eof(self) -> None:
        """Write a close frame after what has been written; reading continues."""
        if self._protocol.state is OPEN:
            self._protocol.send_close(1000)
            self._write_answers()

    def is_closing(self) -> bool:
        """Whether it is closed, or about to be."""
        return self._closing or self._below is None or self._below.is_closing()

    def close(self) -> None:
        """Close when everything is written and the client has sent its close frame, or has closed.

        Some clients take it for an error if they cannot send it. The protocol above aborts if it does not come.
        """
        below = self._below
        if self._closing or below is None:
            return
        self.write_eof()
        self._closing = True
        if not self._request.accepted or self._end_reported or self._protocol.close_rcvd is not None:
            below.close()
        else:
            self.resume_reading()

    def abort(self) -> None:
        """Close at once, without writing what is left."""
        self._closing = True
        if self._lost:
            self._turns.wait(self)
        elif self._below is not None:
            self._below.abort()

    def get_write_buffer_size(self) -> int:
        """Bytes that wait to be written, with the headers of frames."""
        return 0 if self._below is None else self._below.get_write_buffer_size()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """The marks at which pause_writing and resume_writing are called."""
        if self._below is not None and not self._lost:  # uvloop's transport raises RuntimeError once it is closed
            self._below.set_write_buffer_limits(high, low)

    def get_extra_info(self, name: str, default: object = None) -> object:
        """What has failed (`failure`), and bytes: that nothing has come of (`held`), of a frame that is `incomplete`.

        Otherwise information of the transport below, but not the socket, which has frames.
        """
        if name == "held":
            return self._request.size or self._frames.held
        if name == "incomplete":
            return self._frames.incomplete
        if name == "failure" and self._failure:
            return self._failure
        if name == "socket" or self._below is None:
            return default
        found: object = self._below.get_extra_info(name, default)
        return found

    # -- internal

    def go_on(self) -> None:
        """Handle as many frames as this turn of the event loop has left; the others wait for a later one."""
        if self._below is None or (self._paused and not self._lost):
            return
        frames, turns = self._frames, self._turns
        payload = b""
        if frames.more and turns.left > 0:
            payload, count, failure = frames.read(turns.left)
            self._failure = self._failure or failure
            turns.spend(count)
        if self._closing:
            self._protocol.data_to_send()  # nothing is answered any more
            if self._protocol.eof_sent:  # the client's close frame has come, or the parser has failed
                self._below.close()
        elif self._end_reported:
            frames.drop()
        else:
            self._write_answers()
            if payload or self._request.size or frames.held:  # the protocol above looks at what is held, too
                self._upper.data_received(payload)
            # Not when only the broker has sent a close frame: the client may have to read the reason before it.
            if self._failure or self._protocol.close_rcvd is not None:
                self._report_end()
        self._read_on()

    def _read_on(self) -> None:
        """Wait for a turn if there are more frames, or else for what the client sends, or for nothing any more."""
        more = self._frames.more
        if self._lost:
            if more and not (self._closing or self._end_reported):
                self._turns.wait(self)
            else:
                self._end()
            return
        if more != self._held_back and self._below is not None:
            self._held_back = more
            if more:
                self._below.pause_reading()
            elif not self._paused:
                self._below.resume_reading()
        if more and not self._paused:
            self._turns.wait(self)

    def _write_answers(self) -> None:
        """Write what the protocol has to say: the response, pongs, a close frame."""
        below = self._below
        answer = b"".join(self._protocol.data_to_send())
        if below is None or self._lost or not answer:
            return
        below.write(answer)
        self._answers = self._answers + len(answer) if below.get_write_buffer_size() else 0
        if self._answers > MOST_ANSWERS:
            self._failure = "the client does not read the answers to its pings"
            self.abort()

    def _end(self) -> None:
        """Tell the protocol above that the connection is closed, once."""
        self._closing = True
        self._frames.drop()
        error, self._error = self._error, None
        self._upper.connection_lost(error)
        # Break the cycles: the transport refers to this object, the parser (a generator) and the frames of an exception
        # refer to the protocol.
        self._below = None
        self._protocol.parser.close()
        self._protocol.handshake_exc = self._protocol.parser_exc = None

    def _report_end(self) -> None:
        """Report the end of the stream to the protocol above, once; close unless it wants to write."""
        if self._end_reported or self._closing:
            return
        self._end_reported = True
        if not self._upper.eof_received():
            self.close()


def _header(size: int) -> bytes:
    """The header of a binary frame that is not masked (RFC 6455, 5.2)."""
    if size < 126:
        return bytes((_BINARY, size))
    if size < 65_536:
        return struct.pack("!BBH", _BINARY, 126, size)
    return struct.pack("!BBQ", _BINARY, 127, size)
