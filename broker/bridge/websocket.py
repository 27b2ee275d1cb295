"""The client's end of a WebSocket, between a bridge's connection and TCP or TLS (section 6 of MQTT 5).

The package `websockets` makes the handshake and the masked frames, and parses the server's.
"""

import asyncio
from typing import Final, cast, final

from websockets.client import ClientProtocol
from websockets.exceptions import InvalidHandshake, WebSocketException
from websockets.frames import Frame, Opcode
from websockets.http11 import Response
from websockets.protocol import OPEN
from websockets.typing import Subprotocol
from websockets.uri import parse_uri

from broker.connection.client_socket import ClientSocket
from config.bridge import RemoteAddress

LEAST_FRAME: Final = 1024 * 1024
"""Bytes. A frame may hold several packets, so that it may be larger than `mqtt.max_packet_size`."""
MOST_RESPONSE: Final = 65_536
"""Bytes of a response that may come before the WebSocket is open."""
_DATA: Final = (Opcode.BINARY, Opcode.CONT)
_SWITCHING: Final = 101
_NORMAL: Final = 1000
_UNSUPPORTED: Final = 1003


@final
class ClientWebSocket:
    """A protocol for the transport below, and a transport for the connection above."""

    def __init__(self, address: RemoteAddress, upper: ClientSocket, max_packet_size: int) -> None:
        self._uri = parse_uri(str(address))
        self._most = max(LEAST_FRAME, max_packet_size)
        self._protocol: ClientProtocol  # made when the transport below is open: it is a cycle, which has to be ended
        self._upper = upper
        self._above = cast("asyncio.Protocol", upper)
        """What gets what comes: `upper`, or a trace that stands before it."""
        self._below: asyncio.Transport | None = None
        self._open = False
        self._received = 0
        """Bytes that came before it was open."""
        self._failure = ""
        self._closing = False

    # -- what the transport below calls

    def connection_made(self, below: asyncio.Transport) -> None:
        """Ask for a WebSocket."""
        self._below = below
        self._upper.transport = cast("asyncio.Transport", self)
        self._protocol = ClientProtocol(self._uri, subprotocols=[Subprotocol("mqtt")], max_size=self._most)
        self._protocol.send_request(self._protocol.connect())
        self._flush()

    def data_received(self, data: bytes) -> None:
        """Pass the payload of frames up."""
        if not self._open:
            self._received += len(data)
        self._protocol.receive_data(data)
        pieces: list[bytes] = []
        for event in self._protocol.events_received():
            if isinstance(event, Response):
                self._answered(event)
            elif isinstance(event, Frame) and event.opcode in _DATA:
                pieces.append(bytes(event.data))
            elif isinstance(event, Frame) and event.opcode is Opcode.TEXT:
                self._protocol.fail(_UNSUPPORTED)
                self._flush()
                self._fail("WebSocket: a text frame, where MQTT has binary ones")
        if not self._open and self._received > MOST_RESPONSE:
            self._fail("the remote broker answers the WebSocket handshake without end")
        self._flush()
        if pieces and not self._closing:
            self._above.data_received(b"".join(pieces))
        failed = self._protocol.handshake_exc or self._protocol.parser_exc
        if failed is not None:
            self._fail(f"WebSocket: {_text(failed)}")
        elif self._open and self._protocol.close_rcvd is not None and not self._closing:
            self._end()

    def _answered(self, response: Response) -> None:
        if self._protocol.state is OPEN:
            self._open = True
            self._upper.connection_made(cast("asyncio.Transport", self))
        elif response.status_code != _SWITCHING:
            self._fail(f"WebSocket: the server answers {response.status_code} {response.reason_phrase}")

    def eof_received(self) -> bool:
        """The server's stream has ended."""
        if self._open and not self._closing:
            self._end()
        return False

    def connection_lost(self, error: Exception | None) -> None:
        """The transport below is closed."""
        self._closing = True
        connection = self._upper.connection
        connection.why = connection.why or self._failure
        self._above.connection_lost(error)
        self._below = None
        _end_cycles(self._protocol)

    def pause_writing(self) -> None:
        """Pass it on: there is no buffer here."""
        self._above.pause_writing()

    def resume_writing(self) -> None:
        """Pass it on."""
        self._above.resume_writing()

    # -- what the connection above calls

    def set_protocol(self, above: asyncio.Protocol) -> None:
        """From now on this gets what comes."""
        self._above = above

    def write(self, data: bytes) -> None:
        """Write one binary frame."""
        if self._open and data and self._protocol.state is OPEN:
            self._protocol.send_binary(data)
            self._flush()

    def writelines(self, pieces: list[bytes]) -> None:
        """Write all pieces as one binary frame."""
        self.write(b"".join(pieces))

    def pause_reading(self) -> None:
        """Pause the transport below, so that TCP slows the server."""
        if self._below is not None and not self._below.is_closing():
            self._below.pause_reading()

    def resume_reading(self) -> None:
        """Read again."""
        if self._below is not None and not self._below.is_closing():
            self._below.resume_reading()

    def can_write_eof(self) -> bool:
        """No: a client that closes waits for nothing."""
        return False

    def is_closing(self) -> bool:
        """Whether it is closed, or about to be."""
        return self._closing or self._below is None or self._below.is_closing()

    def close(self) -> None:
        """Send a close frame, and close when everything is written."""
        if self._closing or self._below is None:
            return
        self._closing = True
        if self._protocol.state is OPEN:
            self._protocol.send_close(_NORMAL)
            self._flush()
        self._below.close()

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
        if self._below is not None and not self._below.is_closing():
            self._below.set_write_buffer_limits(high, low)

    def get_extra_info(self, name: str, default: object = None) -> object:
        """What has failed (`failure`); otherwise information of the transport below, but not the socket."""
        if name == "failure":
            return self._failure or default
        if name == "socket" or self._below is None:
            return default
        found: object = self._below.get_extra_info(name, default)
        return found

    # -- internal

    def _flush(self) -> None:
        data = b"".join(self._protocol.data_to_send())
        if data and self._below is not None and not self._below.is_closing():
            self._below.write(data)

    def _fail(self, why: str) -> None:
        self._failure = self._failure or why
        self.abort()

    def _end(self) -> None:
        """Report the end of the stream to the connection above."""
        if not self._above.eof_received():
            self.close()


def _end_cycles(protocol: ClientProtocol) -> None:
    """Its parser and its exceptions refer to what holds them: they would be left to the garbage collector."""
    protocol.parser.close()
    for error in (protocol.handshake_exc, protocol.parser_exc):
        if error is not None:
            error.__traceback__ = None
            error.args = ()
            vars(error).clear()


def _text(error: Exception) -> str:
    return str(error) if isinstance(error, InvalidHandshake | WebSocketException) else repr(error)
