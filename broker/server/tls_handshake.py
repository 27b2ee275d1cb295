"""The TLS handshake of one connection, and what those of a listener share.

A connection begins when its handshake has succeeded. One that fails leaves the alert that says why to the client, and a
line in the log.
"""

import asyncio
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, cast

from broker.connection.connection import LINGER
from broker.connection.tls_transport import Bios, TlsTransport
from broker.runtime.clock import SECOND, monotonic_us
from broker.runtime.timers import Timer
from broker.server.tls_failures import LOOK_AT, not_tls, why

if TYPE_CHECKING:
    from broker.broker import Broker

HANDSHAKE_TIMEOUT: Final = 60 * SECOND
"""Microseconds that a handshake may take where `connect_timeout` sets no limit."""
PERIOD: Final = 10 * SECOND
"""Microseconds in which at most LINES failures of a listener are logged; the next line says how many were not."""
LINES: Final = 50


class TlsListener:
    """What the connections of one TLS listener share, and the log of those that never begin.

    `new_connection` makes the protocol that speaks over TLS.
    """

    def __init__(
        self, broker: "Broker", name: str, context: ssl.SSLContext, new_connection: Callable[[], asyncio.Protocol]
    ) -> None:
        self.broker = broker
        self.name = name
        self.context = context
        self.new_connection = new_connection
        self.bios = Bios()
        self.timeout = min(broker.connect_timeout or HANDSHAKE_TIMEOUT, HANDSHAKE_TIMEOUT)
        self.ongoing: set[Handshake] = set()
        self._until = 0
        self._lines = 0
        self._not_logged = 0

    def accept(self) -> asyncio.Protocol:
        """The protocol of a TCP connection that has come."""
        return cast("asyncio.Protocol", Handshake(self))

    def failed(self, peer: str, reason: str, detail: str) -> None:
        """Log why a handshake has failed. A flood of them does not become one of the log."""
        now = monotonic_us()
        if now >= self._until:
            self._until = now + PERIOD
            self._lines = 0
        if self._lines == LINES:
            self._not_logged += 1
            return
        self._lines += 1
        more: dict[str, Any] = {"detail": detail} if detail else {}
        if self._not_logged:
            more["not_logged"] = self._not_logged
            self._not_logged = 0
        self.broker.log.info("tls_handshake_failed", listener=self.name, peer=peer, reason=reason, **more)

    def close(self) -> None:
        """The server stops: no handshake begins from now on."""
        for handshake in list(self.ongoing):
            handshake.abort()


class Handshake(Timer):
    """The protocol of a TCP connection until TLS is agreed upon, and the timer of its end."""

    def __init__(self, listener: TlsListener) -> None:
        self._listener = listener
        self._tcp: asyncio.Transport | None = None
        self._tls: ssl.SSLObject | None = None
        self._peer = ""
        self._first = b""
        self._failed = False

    # -- what the TCP transport calls

    def connection_made(self, tcp: asyncio.Transport) -> None:
        """A client has connected; TLS has to be agreed upon before long."""
        self._tcp = tcp
        peer = tcp.get_extra_info("peername")  # asked for now: a connection that has been reset does not know it
        self._peer = f"[{peer[0]}]:{peer[1]}" if peer and ":" in peer[0] else f"{peer[0]}:{peer[1]}" if peer else ""
        self._listener.ongoing.add(self)
        broker = self._listener.broker
        broker.wheel.add(monotonic_us() + self._listener.timeout, self)

    def data_received(self, data: bytes) -> None:
        """Take the next step of the handshake, and send what it brings: an alert, if it has failed."""
        tcp = self._tcp
        if tcp is None or self._failed:
            return
        if len(self._first) < LOOK_AT:
            self._first += data[: LOOK_AT - len(self._first)]
        bios = self._listener.bios
        tls = self._tls
        if tls is None:
            tls = self._tls = self._listener.context.wrap_bio(bios.incoming, bios.outgoing, server_side=True)
        bios.incoming.write(data)
        failure: ssl.SSLError | None = None
        try:
            tls.do_handshake()
        except ssl.SSLWantReadError:
            self._send(tcp)
            return
        except ssl.SSLError as error:
            failure = error
        except BaseException:
            bios.clear()
            raise
        rest = bios.incoming.read()
        self._send(tcp)
        if failure is None:
            self._begin(tcp, tls, rest)
        else:
            self._fail(why(failure, self._first, self._listener.context.minimum_version), failure.reason or "")
            # Closed with bytes unread, the connection would be reset, and the client might never read the alert.
            tcp.write_eof()
            self._listener.broker.wheel.add(monotonic_us() + LINGER, self)

    def eof_received(self) -> bool:
        """The client gives up, or has read the alert."""
        self._fail("closed by the client before the handshake was over")
        return False

    def connection_lost(self, error: Exception | None) -> None:
        """The TCP connection is gone."""
        self._fail("the connection broke before the handshake was over", "" if error is None else str(error))
        self._end()

    def pause_writing(self) -> None:
        """A handshake writes when it is asked only."""

    def resume_writing(self) -> None:
        """The same."""

    # -- as a timer

    def wanted(self) -> bool:
        """Not when the handshake is over and, if it has failed, its client is gone."""
        return self._tcp is not None

    def due(self, now: int) -> None:
        """Cut off a client that does not get on with it, or has had time to read why not."""
        self._fail(f"not over within {self._listener.timeout / SECOND:g} s")
        self.abort()

    def abort(self) -> None:
        """Cut it off."""
        self._failed = True
        if self._tcp is not None:
            self._tcp.abort()

    # -- within

    def _send(self, tcp: asyncio.Transport) -> None:
        flight = self._listener.bios.outgoing.read()
        if flight:
            tcp.write(flight)

    def _begin(self, tcp: asyncio.Transport, tls: ssl.SSLObject, rest: bytes) -> None:
        """Make place for the connection."""
        listener = self._listener
        self._end()
        transport = TlsTransport(tcp, tls, listener.bios, listener.new_connection())
        tcp.set_protocol(cast("asyncio.Protocol", transport))
        transport.start(rest)

    def _fail(self, reason: str, detail: str = "") -> None:
        """Log the first reason. A client that connects and leaves without a byte, as port scans do, is not logged."""
        if self._failed or self._tcp is None:
            return
        self._failed = True
        if self._first or self._tls is not None:
            self._listener.failed(self._peer, not_tls(self._first) or reason, detail)
        elif reason.startswith("not over"):
            self._listener.failed(self._peer, f"{reason}: the client has sent nothing", detail)
        else:
            self._listener.broker.log.debug("tls_not_begun", listener=self._listener.name, peer=self._peer)

    def _end(self) -> None:
        """The TCP connection is none of its business any more."""
        self._listener.ongoing.discard(self)
        self._tcp = self._tls = None
