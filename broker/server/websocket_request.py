"""The request that begins a WebSocket: it is read up to its end and answered."""

from collections.abc import Callable
from http import HTTPStatus
from typing import Final, final

from websockets.exceptions import InvalidHandshake, InvalidMessage, InvalidOrigin
from websockets.http11 import Request
from websockets.protocol import Protocol
from websockets.server import ServerProtocol

from config.models import WebSocket

MOST_REQUEST: Final = 16_384
"""Bytes of a request with all its headers; its lines stay in memory until its end."""

_READ: Final = ("Connection", "Upgrade", "Origin")
_READ_PREFIX: Final = "sec-websocket-"
"""The headers that `websockets` reads: if one is not ASCII, it fails itself, or cannot encode what it answers."""


@final
class WebSocketRequest:
    """One client's request."""

    def __init__(self, protocol: ServerProtocol, settings: WebSocket, refused: Callable[[str], None]) -> None:
        """`refused` is told why a handshake is."""
        self._protocol = protocol
        self._settings = settings
        self._refused = refused
        self.size = 0
        """Bytes that have come of it; 0 once it is answered."""
        self.answered = False
        self.accepted = False
        self.failure = ""
        """Why it was not accepted; empty = nothing has failed."""

    def read(self, data: bytes) -> bytes:
        """Read the request up to its end and answer it; returns what is behind it.

        Line by line: `websockets` would parse frames behind a request that it may still refuse.
        """
        if self.size == 0 and not data.startswith(b"G"):  # GET: the parser would wait for the end of a line
            self.failure = "not a WebSocket handshake"
            return b""
        protocol = self._protocol
        start = 0
        while start < len(data):
            end = data.find(b"\n", start) + 1 or len(data)
            self.size += end - start
            if self.size > MOST_REQUEST:
                self._refuse_size()
                break
            protocol.receive_data(data[start:end])
            start = end
            for event in protocol.events_received():
                if isinstance(event, Request):
                    self._answer(event)
                    return data[start:]
            if protocol.close_expected():
                self.failure = f"not a WebSocket handshake: {_cause(protocol)!s:.100}"
                break
        return b""

    # -- internal

    def _answer(self, request: Request) -> None:
        """Answer the handshake."""
        protocol = self._protocol
        if request.path.partition("?")[0] != self._settings.path:
            response = protocol.reject(HTTPStatus.NOT_FOUND, f"MQTT is at {self._settings.path}\n")
        elif not _is_ascii(request):
            response = protocol.reject(HTTPStatus.BAD_REQUEST, "a header is not ASCII\n")
            protocol.handshake_exc = InvalidMessage("a header is not ASCII")
        else:
            response = protocol.accept(request)
        protocol.send_response(response)
        self.accepted = response.status_code == HTTPStatus.SWITCHING_PROTOCOLS
        if self.accepted:
            # A new parser: that of the request would keep its headers for as long as the connection lasts.
            protocol.parser.close()
            protocol.parser = Protocol.parse(protocol)
            next(protocol.parser)
        else:
            reason = protocol.handshake_exc
            why = str(reason) if isinstance(reason, InvalidHandshake) else f"path {request.path!r:.100}"
            if isinstance(reason, InvalidOrigin):
                why += " is not among listeners[].websocket.origins"
            self.failure = f"WebSocket handshake refused with {response.status_code}: {why}"
            if "Upgrade" in request.headers:  # a health check may ask for nothing
                self._refused(f"{response.status_code}: {why}")
        self._end()

    def _refuse_size(self) -> None:
        """Refuse a request that is too large."""
        status = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
        why = f"the request is larger than {MOST_REQUEST} bytes"
        self._protocol.send_response(self._protocol.reject(status, f"{why}\n"))
        self.failure = f"WebSocket handshake refused with {status}: {why}"
        self._refused(f"{status}: {why}")
        self._end()

    def _end(self) -> None:
        """Nothing of the request is needed any more."""
        self.answered = True
        self.size = 0
        self._refused = _nobody


def _cause(protocol: ServerProtocol) -> BaseException | None:
    """Why the parser has failed: the text has the request's bytes escaped. Frees the parser's frames."""
    error, protocol.handshake_exc = protocol.handshake_exc, None
    cause = None if error is None else error.__cause__
    if cause is not None:
        cause.__traceback__ = None  # it refers to the parser's frame, which refers to the error: a cycle
    return cause


def _nobody(_: str) -> None:
    """Nobody is told any more."""


def _is_ascii(request: Request) -> bool:
    """Whether the headers of the handshake can be read."""
    return all(
        value.isascii()
        for name, value in request.headers.raw_items()
        if name.title() in _READ or name.lower().startswith(_READ_PREFIX)
    )
