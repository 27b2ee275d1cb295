"""The TLS handshake of one connection, and the state that the handshakes of a listener share.

A `Connection` is created when its handshake has succeeded. A failed handshake sends an alert to the client and writes a
log line.
"""

import asyncio
import ssl
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final, cast

from broker.connection.client_socket import LINGER
from broker.connection.log import peer_of
from broker.connection.newcomers import most_newcomers
from broker.connection.tls_transport import Bios, TlsTransport
from broker.events import Events
from broker.runtime.clock import SECOND, monotonic_us
from broker.runtime.origin import Origin
from broker.runtime.os_errors import text_of
from broker.runtime.timers import Timer, Wheel
from broker.server.listening import Contexts
from broker.server.tls_failures import FIRST_BYTES, not_tls, why
from broker.settings import Settings

HANDSHAKE_TIMEOUT: Final = 60 * SECOND
"""Microseconds that a handshake may take, even if `connect_timeout` is longer or not set."""

TURN: Final = 200
"""Microseconds of each turn of the event loop in which handshakes may begin, one at least. When thousands of clients
connect at once, the others wait: handshakes must not delay connected clients, and each that has begun takes 25 KB more
until it is over, which the allocator does not give back to the system."""

MOST_HELD: Final = 16_384
"""Bytes of a handshake that can wait. A client that has sent more at once does not wait: holding it would cost more."""


class TlsListener:
    """The shared state of one TLS listener's connections.

    `new_connection` creates the protocol that runs over TLS.
    """

    def __init__(
        self,
        events: Events,
        wheel: Wheel,
        settings: Settings,
        name: str,
        contexts: Contexts,
        new_connection: Callable[[Origin | None], asyncio.Protocol],
    ) -> None:
        self.log = events.log
        self.wheel = wheel
        self.name = name
        self.contexts = contexts
        self.new_connection = new_connection
        self.bios = Bios()
        self._settings = settings
        self.ongoing: dict[TlsHandshake, None] = {}
        """The oldest first."""
        self.waiting: deque[TlsHandshake] = deque()
        """Those whose client has sent something, but which have not begun."""
        self._until = 0
        """When the last handshake of this turn of the event loop may begin; 0: none has begun in it."""

    @property
    def timeout(self) -> int:
        """Microseconds that a handshake may take."""
        return min(self._settings.connect_timeout or HANDSHAKE_TIMEOUT, HANDSHAKE_TIMEOUT)

    def accept(self, origin: Origin | None) -> asyncio.Protocol:
        """The protocol of a new TCP connection; `origin`: of a client behind a proxy."""
        return cast("asyncio.Protocol", TlsHandshake(self, origin))

    def begin(self, handshake: "TlsHandshake") -> None:
        """A client has connected. Past the limit of clients without a session the oldest handshake is aborted."""
        self.ongoing[handshake] = None
        most = most_newcomers(self._settings)
        if most and len(self.ongoing) > most:
            next(iter(self.ongoing)).give_way()

    def failed(self, peer: str, reason: str, detail: str) -> None:
        """Log why a handshake has failed."""
        more = {"detail": detail} if detail else {}
        self.log.info("tls_handshake_failed", listener=self.name, peer=peer, reason=reason, **more)

    def may_begin(self, handshake: "TlsHandshake") -> bool:
        """Whether it may begin in this turn of the event loop; otherwise `begin` will be called in a later one."""
        if not self.waiting:
            if self._until == 0:
                asyncio.get_running_loop().call_soon(self._next_turn)
                self._until = monotonic_us() + TURN
                return True
            if monotonic_us() < self._until:
                return True
        self.waiting.append(handshake)
        return False

    def _next_turn(self) -> None:
        """Begin the next ones."""
        self._until = 0
        if not self.waiting:
            return
        asyncio.get_running_loop().call_soon(self._next_turn)  # first, so that one that raises does not stop the others
        self._until = monotonic_us() + TURN
        while self.waiting:
            self.waiting.popleft().begin()
            if monotonic_us() >= self._until:
                break

    def close(self) -> None:
        """Abort all handshakes: the server stops."""
        for handshake in list(self.ongoing):
            handshake.abort()


class TlsHandshake(Timer):
    """The protocol of a TCP connection until its handshake ends, and the timer of its timeout."""

    def __init__(self, listener: TlsListener, origin: Origin | None) -> None:
        self._listener = listener
        self._origin = origin
        self._tcp: asyncio.Transport | None = None
        self._tls: ssl.SSLObject | None = None
        self._peer = ""
        self._first = b""
        self._held = b""
        """What the client has sent before the handshake has begun."""
        self._hello: bytes | None = None
        """Its ClientHello until it is answered, where it may be answered by the second of two contexts."""
        self._failed = False

    # -- what the TCP transport calls

    def connection_made(self, tcp: asyncio.Transport) -> None:
        """Start the timeout of the handshake."""
        self._tcp = tcp
        # Now: it is not available after a reset.
        self._peer = peer_of(tcp) if self._origin is None else self._origin.peer
        self._listener.begin(self)
        self._listener.wheel.add(monotonic_us() + self._listener.timeout, self)

    def data_received(self, data: bytes) -> None:
        """Continue the handshake and send its output, which is an alert if it has failed."""
        tcp = self._tcp
        if tcp is None or self._failed:
            return
        if len(self._first) < FIRST_BYTES:
            self._first += data[: FIRST_BYTES - len(self._first)]
        tls = self._tls
        if tls is None:
            if self._held or (len(data) <= MOST_HELD and not self._listener.may_begin(self)):
                self._held += data
                tcp.pause_reading()
                return
            self._start(tcp, data)
        else:
            self._go_on(tcp, tls, data)

    def begin(self) -> None:
        """Begin with what the client has sent meanwhile, unless it has gone."""
        tcp, data, self._held = self._tcp, self._held, b""
        if tcp is None or self._failed:
            return
        tcp.resume_reading()
        self._start(tcp, data)

    def _start(self, tcp: asyncio.Transport, data: bytes) -> None:
        first, full = self._listener.contexts
        self._hello = None if full is first else b""
        self._use(first, tcp, data)

    def _use(self, context: ssl.SSLContext, tcp: asyncio.Transport, data: bytes) -> None:
        bios = self._listener.bios
        self._tls = context.wrap_bio(bios.incoming, bios.outgoing, server_side=True)
        self._go_on(tcp, self._tls, data)

    def _go_on(self, tcp: asyncio.Transport, tls: ssl.SSLObject, data: bytes) -> None:
        """Handle what has been received, and answer it."""
        contexts, bios = self._listener.contexts, self._listener.bios
        if self._hello is not None:
            self._hello = self._hello + data if len(self._hello) + len(data) <= MOST_HELD else None
        bios.incoming.write(data)
        failure: tuple[str, str] | None = None  # in words: an exception that is kept is a cycle with this frame
        try:
            tls.do_handshake()
        except ssl.SSLWantReadError:
            self._send(tcp)
            return
        except ssl.SSLError as error:
            failure = why(error, self._first, contexts.first.minimum_version), error.reason or ""
        except BaseException:
            bios.clear()
            raise
        hello, self._hello = self._hello, None
        if failure is not None and hello is not None and tls.session_reused:
            bios.clear()  # the client does not get the alert
            self._use(contexts.full, tcp, hello)
            return
        rest = bios.incoming.read()
        self._send(tcp)
        if failure is None:
            self._begin(tcp, tls, rest)
        else:
            self._fail(*failure)
            # Closing a socket that holds received bytes resets the connection: the client might not get the alert.
            with suppress(OSError):  # asyncio's own transport raises it if the client has gone
                tcp.write_eof()
            self._listener.wheel.add(monotonic_us() + LINGER, self)

    def eof_received(self) -> bool:
        """The client has closed its side, before the end of the handshake or after the alert."""
        self._fail("closed by the client before the handshake was over")
        return False

    def connection_lost(self, error: Exception | None) -> None:
        """The TCP connection is closed."""
        self._fail("the connection broke before the handshake was over", "" if error is None else text_of(error))
        self._end()

    def pause_writing(self) -> None:
        """Nothing to do: a handshake writes only in answer to the client."""

    def resume_writing(self) -> None:
        """Nothing to do."""

    # -- as a timer

    def wanted(self) -> bool:
        """False if the handshake has succeeded or the TCP connection is closed."""
        return self._tcp is not None

    def due(self, now: int) -> None:
        """Abort the connection: the handshake has timed out, or the client has had time to read the alert."""
        self._fail(f"not over within {self._listener.timeout / SECOND:g} s")
        self.abort()

    def give_way(self) -> None:
        """Abort the connection: others have come, and this one has had the longest time."""
        self._fail("too many handshakes that do not end")
        self.abort()
        self._end()

    def abort(self) -> None:
        """Abort the connection."""
        self._failed = True
        if self._tcp is not None:
            self._tcp.abort()

    # -- internal

    def _send(self, tcp: asyncio.Transport) -> None:
        flight = self._listener.bios.outgoing.read()
        if flight:
            self._hello = None
            tcp.write(flight)

    def _begin(self, tcp: asyncio.Transport, tls: ssl.SSLObject, rest: bytes) -> None:
        """Replace this protocol by the TLS transport and its `Connection`."""
        listener = self._listener
        self._end()
        transport = TlsTransport(tcp, tls, listener.bios, listener.new_connection(self._origin))
        tcp.set_protocol(cast("asyncio.Protocol", transport))
        transport.start(rest)

    def _fail(self, reason: str, detail: str = "") -> None:
        """Log the first reason; at debug only for a client that closes without sending a byte, as port scans do."""
        if self._failed or self._tcp is None:
            return
        self._failed = True
        if self._first or self._tls is not None:
            self._listener.failed(self._peer, not_tls(self._first) or reason, detail)
        elif reason.startswith("not over"):
            self._listener.failed(self._peer, f"{reason}: the client has sent nothing", detail)
        else:
            self._listener.log.debug("tls_not_begun", listener=self._listener.name, peer=self._peer)

    def _end(self) -> None:
        """Release the TCP connection."""
        self._listener.ongoing.pop(self, None)
        self._tcp = self._tls = None
