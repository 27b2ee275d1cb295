"""The request that begins a WebSocket: it is read up to its end and answered."""

import re
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

_REQUEST_LINE: Final = re.compile(rb"([A-Za-z]{3,20}) [!-~]+ HTTP/([0-9])\.([0-9])\r?\n")

_NO_REQUEST: Final = "the first line is not one of HTTP"
_RIGHT: Final = "GET, a path and HTTP/1.1"

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
        self._line = b""
        """What has come of the line that is not complete yet: of the first, or of a request that is not GET."""
        self._status: HTTPStatus | None = None
        """The answer that the first line asks for; SWITCHING_PROTOCOLS = what the parser decides. None = none yet."""
        self._said = ""
        """Why it is not the parser's to decide."""
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
        if self.size == 0 and not data[:1].isalpha():  # no method of HTTP: the end of a line might never come
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
            line = self._line_to_parse(data[start:end])
            start = end
            if self.answered:
                break
            protocol.receive_data(line)
            for event in protocol.events_received():
                if isinstance(event, Request):
                    self._answer(event)
                    return data[start:]
            if protocol.close_expected():
                self._refuse_line(HTTPStatus.BAD_REQUEST, _cause(protocol))
                break
        return b""

    # -- internal

    def _line_to_parse(self, piece: bytes) -> bytes:
        """What the parser gets of a piece of a line: the first line as a whole, nothing of requests that are not GET.

        Such a request is answered at its end: by then a client that writes it in pieces has written all of it.
        """
        if self._status is HTTPStatus.SWITCHING_PROTOCOLS:
            return piece
        line = self._line + piece
        if not line.endswith(b"\n"):
            self._line = line
            return b""
        self._line = b""
        if self._status is None:
            self._status, self._said = _status(line)
            if self._status is HTTPStatus.SWITCHING_PROTOCOLS:
                return line
        if not line.strip() or self._said is _NO_REQUEST:
            self._refuse_line(self._status, self._said)
        return b""

    def _refuse_line(self, status: HTTPStatus, why: str) -> None:
        """Answer what is no request of WebSocket, such as that of a health check."""
        is_method = status is HTTPStatus.METHOD_NOT_ALLOWED
        response = self._protocol.reject(status, "" if is_method else f"{why}: a WebSocket begins with {_RIGHT}\n")
        if is_method:
            response.headers["Allow"] = "GET"
        self._protocol.writes.append(response.serialize())  # the parser may have ended its side already
        self.failure = f"not a WebSocket handshake: {why}, answered with {status}"
        self._end()

    def _answer(self, request: Request) -> None:
        """Answer the handshake."""
        protocol = self._protocol
        if request.path.partition("?")[0] not in self._settings.path:
            response = protocol.reject(HTTPStatus.NOT_FOUND, f"MQTT is at {' and '.join(self._settings.path)}\n")
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
            why = str(reason) if isinstance(reason, InvalidHandshake) else _shown(request.path)
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
        self._line = b""
        self.size = 0
        self._refused = _nobody


def _status(line: bytes) -> tuple[HTTPStatus, str]:
    """The answer that a first line asks for, and why (RFC 6455, 4.2.1; RFC 9110, 15.6.6)."""
    found = _REQUEST_LINE.fullmatch(line)
    if found is None:
        return HTTPStatus.BAD_REQUEST, _NO_REQUEST
    method, major, minor = (each.decode() for each in found.groups())
    if major != "1":
        return HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, f"HTTP/{major}.{minor}"
    if not method.isupper():
        return HTTPStatus.BAD_REQUEST, f"method {method}"
    if method != "GET":
        return HTTPStatus.METHOD_NOT_ALLOWED, method
    if minor != "1":
        return HTTPStatus.BAD_REQUEST, f"HTTP/1.{minor}"
    return HTTPStatus.SWITCHING_PROTOCOLS, ""


def _shown(target: str) -> str:
    """The path of a request, for the log, without what may be a secret: clients write tokens into the query."""
    path, mark, _ = target.partition("?")
    if not path.startswith("/"):
        return "a path that does not begin with /"  # an address with a user and a password, for instance
    return f"path {path!r:.100}" + (" with a query" if mark else "")


def _cause(protocol: ServerProtocol) -> str:
    """Why the parser has failed, without the header that the text quotes: it may be a secret. Frees its frames."""
    error, protocol.handshake_exc = protocol.handshake_exc, None
    cause = None if error is None else error.__cause__
    if cause is not None:
        cause.__traceback__ = None  # it refers to the parser's frame, which refers to the error: a cycle
    return str(cause).partition(":")[0][:100]


def _nobody(_: str) -> None:
    """Nobody is told any more."""


def _is_ascii(request: Request) -> bool:
    """Whether the headers of the handshake can be read."""
    return all(
        value.isascii()
        for name, value in request.headers.raw_items()
        if name.title() in _READ or name.lower().startswith(_READ_PREFIX)
    )
