"""A WebSocket between a client's connection and its TCP or TLS transport (section 6 of MQTT 5).

A protocol for the transport below and a transport for the protocol above, like `TlsTransport`. The package `websockets`
parses the handshake and the client's frames; the broker's own frames are not masked, so their headers are made here.
Compression is not offered: it costs memory for each connection, and time for each message.
"""

import asyncio
import struct
from collections.abc import Callable
from http import HTTPStatus
from typing import Final, cast, final

from websockets.exceptions import InvalidHandshake, InvalidMessage, InvalidOrigin
from websockets.frames import Frame, Opcode
from websockets.http11 import Request
from websockets.protocol import OPEN
from websockets.server import ServerProtocol
from websockets.typing import Origin, Subprotocol

from config.models import WebSocket

SUBPROTOCOLS: Final = [Subprotocol("mqtt"), Subprotocol("mqttv3.1")]
"""What a client has to offer [MQTT-6.0.0-3]; the second one is what older clients say, whatever their version is."""
LEAST_FRAME: Final = 1024 * 1024
"""Bytes. A frame may hold several packets, so that it may be larger than `mqtt.max_packet_size`."""
MOST_ANSWERS: Final = 65_536
"""Bytes of pongs that may wait while the client reads nothing; past that the connection is aborted."""

_READ: Final = ("Connection", "Upgrade", "Origin")
_READ_PREFIX: Final = "sec-websocket-"
"""The headers that `websockets` reads: if one is not ASCII, it fails itself, or cannot encode what it answers."""

_DATA: Final = (Opcode.BINARY, Opcode.CONT)
_BINARY: Final = 0x80 | Opcode.BINARY
_UNSUPPORTED: Final = 1003
"""Status code of a close: the data is of a kind that cannot be accepted."""


@final
class WebSocketTransport:
    """Duck-typed on both sides, like Connection: native classes cannot inherit asyncio's."""

    def __init__(
        self, settings: WebSocket, max_packet_size: int, upper: asyncio.Protocol, refused: Callable[[str], None]
    ) -> None:
        """`refused` is told why a handshake is."""
        self._settings = settings
        self._refused = refused
        # A client that names no origin is no page in a browser; it could name any.
        origins = [*map(Origin, settings.origins), None] if settings.origins else None
        self._protocol = ServerProtocol(
            origins=origins, subprotocols=SUBPROTOCOLS, max_size=max(LEAST_FRAME, max_packet_size)
        )
        self._upper = upper
        self._below: asyncio.Transport | None = None
        self._begun = False
        self._answered = False
        self._open = False
        self._closing = False
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
        if self._closing:
            self._wait_for_close(data)
            return
        if self._end_reported:
            return
        if not (self._begun or data.startswith(b"G")):  # GET: the parser would wait for the end of a line
            self._failure = "not a WebSocket handshake"
            self._report_end()
            return
        self._begun = True
        if not self._answered:
            data = self._read_request(data)
        payload, failure = _read_frames(self._protocol, data) if data else (b"", "")
        self._failure = self._failure or failure
        self._write_answers()
        if payload or self._protocol.reader.buffer:  # the protocol above looks at what is held, too
            self._upper.data_received(payload)
        if self._protocol.parser_exc is not None and not self._failure:
            self._failure = str(self._protocol.parser_exc)
        if self._protocol.close_expected():
            self._report_end()

    def eof_received(self) -> bool:
        """The client's stream has ended, with or without a close frame."""
        if self._closing and self._below is not None:
            self._below.close()
        self._report_end()
        return True

    def connection_lost(self, error: Exception | None) -> None:
        """The transport below is closed."""
        self._closing = True
        self._upper.connection_lost(error)
        # Break the cycles: the transport refers to this object, the parser (a generator) and the frames of an exception
        # refer to the protocol.
        self._below = None
        self._protocol.parser.close()
        self._protocol.handshake_exc = self._protocol.parser_exc = None

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
        if self._below is None or not self._open or self._protocol.state is not OPEN:
            return
        size = sum(map(len, pieces))
        if size:
            self._below.writelines([_header(size), *pieces])

    def pause_reading(self) -> None:
        """Pause the transport below, so that TCP slows the client."""
        if self._below is not None:
            self._below.pause_reading()

    def resume_reading(self) -> None:
        """Resume reading."""
        if self._below is not None:
            self._below.resume_reading()

    def can_write_eof(self) -> bool:
        """Yes: with a close frame."""
        return True

    def write_eof(self) -> None:
        """Write a close frame after what has been written; reading continues."""
        if self._open and self._protocol.state is OPEN:
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
        if not self._open or self._end_reported or self._protocol.close_rcvd is not None:
            below.close()
        else:
            below.resume_reading()

    def abort(self) -> None:
        """Close at once, without writing what is left."""
        self._closing = True
        if self._below is not None:
            self._below.abort()

    def get_write_buffer_size(self) -> int:
        """Bytes that wait to be written, with the headers of frames."""
        return 0 if self._below is None else self._below.get_write_buffer_size()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """The marks at which pause_writing and resume_writing are called."""
        if self._below is not None:
            self._below.set_write_buffer_limits(high, low)

    def get_extra_info(self, name: str, default: object = None) -> object:
        """What has failed (`failure`), bytes of an incomplete frame (`held`), and information of the transport below.

        Not the socket, which has frames.
        """
        if name == "held":
            return len(self._protocol.reader.buffer)
        if name == "failure" and self._failure:
            return self._failure
        if name == "socket" or self._below is None:
            return default
        found: object = self._below.get_extra_info(name, default)
        return found

    # -- internal

    def _read_request(self, data: bytes) -> bytes:
        """Read the request up to its end and answer it; returns what is behind it.

        Line by line: `websockets` would parse frames behind a request that it may still refuse.
        """
        protocol = self._protocol
        start = 0
        while start < len(data):
            end = data.find(b"\n", start) + 1 or len(data)
            protocol.receive_data(data[start:end])
            start = end
            for event in protocol.events_received():
                if isinstance(event, Request):
                    self._accept(event)
                    return data[start:]
            if protocol.close_expected():
                error = protocol.handshake_exc
                cause = error.__cause__ if error is not None else None  # it quotes bytes of the request escaped
                self._failure = f"not a WebSocket handshake: {cause!s:.100}"
                break
        return b""

    def _accept(self, request: Request) -> None:
        """Answer the handshake."""
        self._answered = True
        protocol = self._protocol
        if request.path.partition("?")[0] != self._settings.path:
            response = protocol.reject(HTTPStatus.NOT_FOUND, f"MQTT is at {self._settings.path}\n")
        elif not _is_ascii(request):
            response = protocol.reject(HTTPStatus.BAD_REQUEST, "a header is not ASCII\n")
            protocol.handshake_exc = InvalidMessage("a header is not ASCII")
        else:
            response = protocol.accept(request)
        protocol.send_response(response)
        self._open = response.status_code == HTTPStatus.SWITCHING_PROTOCOLS
        if not self._open:
            reason = protocol.handshake_exc
            why = str(reason) if isinstance(reason, InvalidHandshake) else f"path {request.path!r:.100}"
            if isinstance(reason, InvalidOrigin):
                why += " is not among listeners[].websocket.origins"
            self._failure = f"WebSocket handshake refused with {response.status_code}: {why}"
            if "Upgrade" in request.headers:  # a health check may ask for nothing
                self._refused(f"{response.status_code}: {why}")
        self._refused = _nobody

    def _wait_for_close(self, data: bytes) -> None:
        """Close when the client's close frame has come; nothing else counts any more."""
        protocol = self._protocol
        protocol.receive_data(data)
        protocol.events_received()
        if self._below is not None and (protocol.close_rcvd is not None or protocol.parser_exc is not None):
            self._below.close()

    def _write_answers(self) -> None:
        """Write what the protocol has to say: the response, pongs, a close frame."""
        below = self._below
        answer = b"".join(self._protocol.data_to_send())
        if below is None or not answer:
            return
        below.write(answer)
        self._answers = self._answers + len(answer) if below.get_write_buffer_size() else 0
        if self._answers > MOST_ANSWERS:
            self._failure = "the client does not read the answers to its pings"
            self.abort()

    def _report_end(self) -> None:
        """Report the end of the stream to the protocol above, once; close unless it wants to write."""
        if self._end_reported or self._closing:
            return
        self._end_reported = True
        if not self._upper.eof_received():
            self.close()


def _nobody(_: str) -> None:
    """Nobody is told any more."""


def _read_frames(protocol: ServerProtocol, data: bytes) -> tuple[bytes, str]:
    """The payload of the binary frames that are complete now, and what has failed, if anything."""
    protocol.receive_data(data)
    pieces: list[bytes] = []
    failure = ""
    for event in protocol.events_received():
        if not isinstance(event, Frame):
            continue
        if event.opcode in _DATA:
            pieces.append(bytes(event.data))
        elif event.opcode is Opcode.TEXT:  # [MQTT-6.0.0-1]
            failure = "a text frame, where MQTT has binary ones"
            protocol.fail(_UNSUPPORTED, failure)
            break
    return b"".join(pieces), failure


def _is_ascii(request: Request) -> bool:
    """Whether the headers of the handshake can be read."""
    return all(
        value.isascii()
        for name, value in request.headers.raw_items()
        if name.title() in _READ or name.lower().startswith(_READ_PREFIX)
    )


def _header(size: int) -> bytes:
    """The header of a binary frame that is not masked (RFC 6455, 5.2)."""
    if size < 126:
        return bytes((_BINARY, size))
    if size < 65_536:
        return struct.pack("!BBH", _BINARY, 126, size)
    return struct.pack("!BBQ", _BINARY, 127, size)
