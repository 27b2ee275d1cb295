"""The shell of a connection: its socket. It owns the transport, and what waits for commits of the journal (FC-27).

It feeds the core, `Connection`, with bytes and the clock; it writes what the core has put into the session's outbox.
"""

import asyncio
from contextlib import suppress
from typing import Any, Final, final

from broker.connection.connection import CONGESTED, Connection
from broker.connection.handlers import Handlers
from broker.connection.log import host_of, peer_of
from broker.connection.transport import left_in_socket
from broker.connection.uncommitted import Uncommitted
from broker.connection.undrained import Undrained
from broker.runtime.clock import NANOSECONDS, SECOND, monotonic_us
from broker.runtime.origin import Origin
from broker.runtime.os_errors import text_of
from broker.runtime.read_gate import AUTHENTICATING, UNDRAINED
from broker.runtime.socket import Socket
from session.session import Session

LARGE_PIECE: Final = 4_096
"""From this mean size on, pieces go to the transport as a list: joining them would cost more."""
LINGER: Final = SECOND
"""Microseconds in which a client can read why it is disconnected, and close."""
CLOSE_TIMEOUT: Final = 5 * SECOND
"""Microseconds in which a client has to drain what is left; then its connection is aborted."""


@final
class ClientSocket(Socket):
    """An asyncio protocol (duck-typed: native classes cannot inherit it)."""

    def __init__(self, handlers: Handlers, listener: str, origin: Origin | None = None) -> None:
        """`origin`: of a client behind a trusted proxy."""
        super().__init__(origin)
        self.connection = connection = Connection(handlers, listener)
        self._uncommitted: Uncommitted | None = None
        """What waits for a commit of the journal (FC-27)."""
        self._undrained: Undrained | None = None
        """What the client leaves undrained, while its send path is congested."""
        if origin is not None:
            connection.peer = origin.peer
        connection.socket = self

    # -- what asyncio calls

    def connection_made(self, transport: asyncio.Transport) -> None:
        """A client has connected."""
        self.transport = transport
        self.connection.handlers.totals.sockets += 1
        self.connection.opened(monotonic_us())

    def data_received(self, data: bytes) -> None:
        """Handle all complete packets, then write the answers."""
        connection = self.connection
        gate = connection.gate
        if gate.closed:
            return
        handlers = connection.handlers
        handlers.totals.bytes_received += len(data)
        connection.decoder.feed(data)
        if gate.reasons == 0:
            handlers.run_queue.handle_chunk(connection, NANOSECONDS[0]() // 1000)  # `monotonic_us`, inline

    def eof_received(self) -> bool:
        """The client will send no more: handle what has come, and close."""
        connection = self.connection
        if self.transport is not None and not connection.gate.closed:
            connection.why = self.transport.get_extra_info("failure", "")
        connection.read_to_end()
        if connection.gate.reasons & AUTHENTICATING:
            return True  # the handshake closes, after what the client has sent behind CONNECT
        connection.close()
        return self._uncommitted is not None

    def connection_lost(self, error: Exception | None) -> None:
        """The connection is closed, by either side."""
        connection = self.connection
        gate = connection.gate
        transport = self.transport
        if not gate.closed or connection.handlers.events.debug:
            connection.peer = connection.peer or peer_of(transport)  # lines may still be logged that name it
        self.transport = None
        if not gate.closed:
            if transport is not None:
                connection.why = transport.get_extra_info("failure", "")
            if error is not None and transport is not None:
                connection.decoder.feed(left_in_socket(transport))
            connection.read_to_end()
        connection.closed("" if error is None else text_of(error), monotonic_us())

    def pause_writing(self) -> None:
        """The send path is congested from now on."""
        session = self.connection.session
        if session is not None and self.transport is not None:
            session.set_congested(True, monotonic_us())
            self._undrained = Undrained(self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        """The send path is no longer congested: drain the mqueue."""
        session = self.connection.session
        if session is None:
            return
        session.set_congested(False, monotonic_us())
        self._undrained = None
        self.connection.gate.resume(UNDRAINED)
        self.connection.wake()

    # -- reading

    def stop_reading(self, now: int) -> None:
        """Read nothing more."""
        if self.transport is not None:
            session = self.connection.session
            if session is not None:
                session.note_reading_paused(True, now)
            self.transport.pause_reading()

    def start_reading(self, now: int) -> None:
        """Read again."""
        if self.transport is not None:
            session = self.connection.session
            if session is not None:
                session.note_reading_paused(False, now)
            self.transport.resume_reading()

    def held(self) -> int:
        """Bytes received that no complete packet has come of, also those below MQTT."""
        return self.connection.decoder.buffered + _below(self.transport, "held")

    def incomplete(self) -> int:
        """Bytes of one incomplete packet, also those below MQTT, but nothing that waits."""
        return self.connection.decoder.incomplete + _below(self.transport, "incomplete")

    def host(self) -> str:
        """The client's address without its port; empty if it is unknown."""
        if self.origin is not None:
            return self.origin.host
        return "" if self.transport is None else host_of(self.transport.get_extra_info("peername"))

    def certificate(self) -> dict[str, Any]:
        """The client's, which this cell or another one has verified; empty if there is none."""
        if self.origin is not None and self.origin.certificate:
            return self.origin.certificate
        found: object = None if self.transport is None else self.transport.get_extra_info("peercert")
        return found if isinstance(found, dict) else {}

    # -- writing and closing

    def write(self, data: bytes) -> None:
        """Write at once, ahead of what is in the outbox; but behind what waits for a commit (FC-27)."""
        if self._uncommitted is not None:
            self._uncommitted.add([data], 0)
        elif self.transport is not None:
            self._write_now(self.transport, data)

    def _write_now(self, transport: asyncio.Transport, data: bytes) -> None:
        self.connection.handlers.totals.bytes_sent += len(data)
        transport.write(data)

    def congest_at(self, size: int) -> None:
        """The send path is congested with more than so many bytes in the transport (FC-3)."""
        if self.transport is not None:
            self.transport.set_write_buffer_limits(size)

    def flush(self, session: Session) -> None:
        """Write the session's outbox."""
        transport = self.transport
        if transport is None:
            return
        outbox = session.outbox
        deliveries = outbox.delivery_bytes
        commit = outbox.commit
        pieces = outbox.take()
        count = len(pieces)
        if count == 0:
            return
        if commit:
            self.hold_until(commit)
        if self._uncommitted is not None:
            self._hold(self._uncommitted, session, pieces, deliveries)
            return
        totals = self.connection.handlers.totals
        if count > 1 and deliveries > LARGE_PIECE * count:
            for piece in pieces:
                totals.bytes_sent += len(piece)
            transport.writelines(pieces)
        else:
            data = pieces[0] if count == 1 else b"".join(pieces)
            totals.bytes_sent += len(data)
            transport.write(data)
        if self._undrained is not None:
            self._check_undrained(self._undrained, session, transport, pieces, deliveries)

    def _check_undrained(
        self,
        undrained: Undrained,
        session: Session,
        transport: asyncio.Transport,
        pieces: list[bytes],
        deliveries: int,
    ) -> None:
        """FC-15: pause reading a client that does not drain what it is sent."""
        if deliveries:
            too_many = undrained.exceeds_plausible(session, deliveries, transport.get_write_buffer_size())
        else:
            too_many = undrained.too_many_answers(pieces)
        if too_many:
            self.connection.gate.pause(UNDRAINED, monotonic_us())

    # -- waiting for commits of the journal (FC-27)

    def hold_until(self, commit: int) -> None:
        """Write nothing more until this commit has returned."""
        barrier = self.connection.handlers.barrier
        if barrier is None or barrier.committed >= commit:
            return
        uncommitted = self._uncommitted
        if uncommitted is None:
            uncommitted = self._uncommitted = Uncommitted()
        if uncommitted.hold_until(commit):
            barrier.wait(self.connection, commit)

    def _hold(self, uncommitted: Uncommitted, session: Session, pieces: list[bytes], deliveries: int) -> None:
        """Write the pieces when their commit has returned. If too much waits, the send path is congested (FC-3)."""
        uncommitted.add(pieces, deliveries)
        if uncommitted.bytes > CONGESTED and not session.outbound.sender.congested:
            uncommitted.congests = True
            session.set_congested(True, monotonic_us())

    def on_commit(self) -> None:
        """A commit has returned: write what waited for it."""
        uncommitted = self._uncommitted
        barrier = self.connection.handlers.barrier
        if uncommitted is None or barrier is None:
            return
        pieces, deliveries = uncommitted.take(barrier.committed)
        if not uncommitted.waits():
            self._uncommitted = None
        transport = self.transport
        if transport is None:
            return
        if pieces:
            self._write_now(transport, b"".join(pieces))
            session = self.connection.session
            if self._undrained is not None and session is not None:
                self._check_undrained(self._undrained, session, transport, pieces, deliveries)
        if self._uncommitted is None and uncommitted.closes:
            self.close(monotonic_us(), uncommitted.reason_sent)
        elif uncommitted.congests and uncommitted.bytes <= CONGESTED // 4 and self._undrained is None:
            uncommitted.congests = False
            self.resume_writing()

    def close(self, now: int, reason_sent: bool) -> None:
        """Close once what is left has been written; if the client does not drain it, abort.

        `reason_sent`: the reason is among it, so the client gets the time to read it.
        """
        transport = self.transport
        assert transport is not None  # it is open
        self.connection.handlers.aborts.set(self.connection, now + CLOSE_TIMEOUT)
        if self._uncommitted is not None:
            self._uncommitted.closes = True
            self._uncommitted.reason_sent = reason_sent
            return
        if reason_sent and transport.can_write_eof():
            # Closing a socket that holds received bytes resets the connection, and the client may lose the reason:
            # so read and ignore what it still sends, until it closes too.
            with suppress(OSError):  # asyncio's own transport raises it if the client has gone
                transport.write_eof()
            transport.resume_reading()
            self.connection.handlers.lingering.set(self.connection, now + LINGER)
        else:
            transport.close()

    def abort(self) -> None:
        """Close at once, without writing what is left."""
        if self.transport is not None:
            self.transport.abort()

    def leave(self, now: int) -> None:
        """Leave the transport to somebody else."""
        self.transport = None
        self.connection.abort()
        self.connection.closed("", now)


def _below(transport: asyncio.Transport | None, name: str) -> int:
    """Bytes that a transport with frames says it has."""
    count = None if transport is None else transport.get_extra_info(name)
    return count if isinstance(count, int) else 0
