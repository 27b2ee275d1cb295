"""Downloads a set of keys (JWKS), within a time and a size, however slowly its server answers."""

import asyncio
import socket
import ssl
import urllib.request
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection
from typing import Any, Final

from broker.runtime.own_thread import in_own_thread
from config.tokens import Jwt

MOST_BYTES: Final = 1_048_576
"""The longest set of keys that is read."""
TIMEOUT: Final = 10.0
"""Seconds for which an address may say nothing."""
LONGEST: Final = 30.0
"""Seconds until its whole answer has to be there."""


async def download(own: Jwt) -> bytes:
    """What the address answers, up to one byte more than MOST_BYTES. Raises OSError, ValueError, HTTPException."""
    request = _Request(own)
    answer = in_own_thread(request.read, "keys")
    try:
        if not (await asyncio.wait((answer,), timeout=LONGEST))[0]:
            raise OSError(f"the whole answer was not there within {LONGEST:g} s")
        return await answer
    finally:
        answer.cancel()
        request.end()
        del answer  # else a cycle: the future refers to its error, the error's traceback to this frame


class _Request:
    """One request, which another thread can end: timeouts of a socket are for each piece that it receives."""

    def __init__(self, own: Jwt) -> None:
        self._own = own
        self._connection: HTTPConnection | None = None
        self._ended = False

    def read(self) -> bytes:
        """Called in a thread of its own."""
        context = ssl.create_default_context(cafile=self._own.jwks_cafile)
        opener = urllib.request.build_opener(_NoRedirects, _Http(self), _Https(self, context))
        content = b""
        answer: HTTPResponse
        with opener.open(str(self._own.jwks_url), timeout=TIMEOUT) as answer:
            while not self._ended and (piece := answer.read1(MOST_BYTES + 1 - len(content))):
                content += piece
        return content

    def begin(self, connection: HTTPConnection) -> HTTPConnection:
        """It goes over this connection, unless it has ended by the time that the connection is there."""
        self._connection = connection
        opens = connection.connect

        def connect() -> None:
            opens()
            if self._ended:
                raise OSError("the download was given up")

        connection.connect = connect  # type: ignore[method-assign] # of this one only
        return connection

    def end(self) -> None:
        """Nobody waits for it: the thread ends at the next piece, or at once if it waits for the head."""
        self._ended = True
        opened: Any = None if self._connection is None else self._connection.sock
        if opened is not None:
            try:
                socket.socket.shutdown(opened, socket.SHUT_RDWR)  # not TLS's own, which the other thread uses
            except OSError:
                pass  # it is not open


class _Http(urllib.request.HTTPHandler):
    """Opens connections that can be ended."""

    def __init__(self, request: _Request) -> None:
        super().__init__()
        self._request = request

    def http_open(self, asked: urllib.request.Request) -> HTTPResponse:
        """Open `asked`."""
        return self.do_open(lambda host, **more: self._request.begin(HTTPConnection(host, **more)), asked)


class _Https(urllib.request.HTTPSHandler):
    """The same with TLS."""

    def __init__(self, request: _Request, context: ssl.SSLContext) -> None:
        super().__init__(context=context)
        self._request = request
        self._own_context = context

    def https_open(self, asked: urllib.request.Request) -> HTTPResponse:
        """Open `asked`."""
        context = self._own_context
        return self.do_open(
            lambda host, **more: self._request.begin(HTTPSConnection(host, context=context, **more)), asked
        )


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Keys come from the configured address: an answer must not lead to another one, which need not be https."""

    def redirect_request(self, *_: Any) -> None:
        """Do not follow: the answer is an error."""
