"""A connection of the admin API: until uvicorn has it, and how long it waits for its peer."""

import asyncio
from typing import TYPE_CHECKING, Final, cast

from broker.server.unix_socket import peer_uid

if TYPE_CHECKING:
    from broker.admin.server import AdminServer

REQUEST_TIMEOUT: Final = 10.0
"""Seconds that a peer has to send a request, with its body, and before it for the TLS handshake. A peer that sends
nothing, or a byte now and then, must not keep others out."""

READ_TIMEOUT: Final = 30.0
"""Seconds after which a peer that has read nothing of what waits for it is disconnected. It may look away for a while,
as a telephone does; and a slow network takes as long as it needs."""

REFUSAL_TIMEOUT: Final = 1.0
"""Seconds that a refused connection has to send its request."""

_REFUSAL: Final = (
    "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {size}\r\nconnection: close\r\n\r\n{body}"
)


class AdminConnection(asyncio.Protocol):
    """A connection until uvicorn takes it over: its peer is checked, and refused or served."""

    def __init__(self, server: "AdminServer", trusted: bool) -> None:
        """`trusted`: by its socket, which only the broker's user and root may open."""
        self.refused = False
        self._server = server
        self.trusted = trusted
        self.stranger = not trusted
        """Whether its peer has shown no valid token with its last request."""
        self._opened = 0.0
        self._uid: int | None = None
        self._transport: asyncio.Transport | None = None
        self._protocol: asyncio.Protocol | None = None
        self._received = b""
        self._expecting = False
        self._paused = False
        """Whether the transport has too much that the peer has not read."""
        self._waits_since: float | None = None
        self._deadline: asyncio.TimerHandle | None = None

    def facts(self) -> dict[str, object]:
        """What each request's `state` has."""
        return {"trusted": self.trusted, "uid": self._uid, "connection": self}

    def expect_request(self) -> None:
        """The peer has REQUEST_TIMEOUT to send the next request, and to read what waits for it."""
        self._expecting = True
        self._look_at_peer()

    def has_request(self) -> None:
        """It has sent it whole."""
        self._expecting = False
        self._look_at_peer()

    @property
    def is_open(self) -> bool:
        """Whether the peer is there."""
        return self._transport is not None and not self._transport.is_closing()

    def waited(self) -> float:
        """For how many seconds the broker has waited for the peer: for a token, a request, or for room to write."""
        since = self._opened if self.stranger else self._waits_since
        return 0.0 if since is None else asyncio.get_running_loop().time() - since

    def _look_at_peer(self) -> None:
        """Whether the broker waits for the peer, and until when, has changed."""
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        if self not in self._server.connections or not (self._expecting or self._paused):
            self._waits_since = None
            return
        loop = asyncio.get_running_loop()
        if self._waits_since is None:
            self._waits_since = loop.time()
        if self._paused:
            self._deadline = loop.call_later(READ_TIMEOUT, self._unread, self._buffered())
        else:
            self._deadline = loop.call_later(REQUEST_TIMEOUT, self.abort)

    def _unread(self, before: int) -> None:
        """Give up a peer that has read nothing; one that reads slowly has more time."""
        if self._buffered() >= before:
            self.abort()
        else:
            self._look_at_peer()

    def _buffered(self) -> int:
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Refuse, or wait for the application."""
        self._transport = cast("asyncio.Transport", transport)
        self._opened = asyncio.get_running_loop().time()
        self._server.connections.add(self)
        if self.trusted:
            self._uid = peer_uid(transport.get_extra_info("socket"))
        why = self._server.refusal(self, self._uid)
        if why:
            self.refused = True
            status = "403 Forbidden" if "not allowed" in why else "503 Service Unavailable"
            body = f'{{"detail": "{why}"}}\n'
            self._transport.write(_REFUSAL.format(status=status, size=len(body), body=body).encode())
            # Closed before its request is there, the peer might see an error in place of the answer.
            asyncio.get_running_loop().call_later(REFUSAL_TIMEOUT, self._transport.close)
            return
        self.expect_request()
        self._server.serve(self)

    def begin(self, protocol: asyncio.Protocol) -> None:
        """From now on uvicorn handles what comes."""
        assert self._transport is not None  # `connection_made` comes first
        self._protocol = protocol
        protocol.connection_made(self._transport)
        if self._received:
            self.expect_request()
            protocol.data_received(self._received)
            self._transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        """Part of a request."""
        if self._protocol is not None:
            self._protocol.data_received(data)
        elif self.refused:
            self.close()
        elif self._transport is not None:
            self._received = data  # it is for uvicorn, when the application is loaded
            self.has_request()  # and that it is not yet is not the peer's fault
            self._transport.pause_reading()

    def eof_received(self) -> bool | None:
        """The peer has closed its side: it may still wait for the answer."""
        return self._protocol.eof_received() if self._protocol is not None else None

    def pause_writing(self) -> None:
        """The peer reads too slowly."""
        self._paused = True
        self._look_at_peer()
        if self._protocol is not None:
            self._protocol.pause_writing()

    def resume_writing(self) -> None:
        """It has read enough."""
        self._paused = False
        self._look_at_peer()
        if self._protocol is not None:
            self._protocol.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection has ended."""
        self._server.connections.discard(self)
        self._look_at_peer()
        if self._protocol is not None:
            self._protocol.connection_lost(exc)
        self._protocol = self._transport = None  # both refer to this object: break the cycles

    def close(self) -> None:
        """Close when everything is written."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close at once."""
        if self._transport is not None:
            self._transport.abort()
