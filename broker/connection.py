"""One client's connection: bytes in, packets handled where they arrive, the session's outbox written once per pass."""

import asyncio
from typing import TYPE_CHECKING, Final, final

from broker.clients import SessionTimer
from broker.clock import monotonic_us
from broker.handshake import connect, refusal
from broker.session_task import SessionTask
from broker.subscribing import subscribe, unsubscribe
from broker.wheel import Timer
from protocol import packet_types, reason_codes
from protocol.acknowledgements import Puback, Pubcomp, Pubrec, Pubrel
from protocol.connect import Connect, Will
from protocol.decoder import Decoder
from protocol.disconnect import Disconnect
from protocol.errors import MQTTError, ProtocolError
from protocol.packet import Packet
from protocol.ping import Pingreq
from protocol.publish import Publish
from protocol.subscribe import Subscribe
from protocol.unsubscribe import Unsubscribe
from session.host import Host
from session.session import Session

if TYPE_CHECKING:
    from broker.broker import Broker
    from broker.clients import Client

CONTROL_BACKLOG: Final = 65_536
"""A client that leaves this many bytes of acknowledgements unread is itself not read until it takes them."""
LARGE_PIECE: Final = 4_096
"""Pieces of this mean size go to the transport as they are: joining them would copy more than a list costs."""
CLOSE_TIMEOUT: Final = 5_000_000
"""A client that does not take what is left for it within this time, in microseconds, is cut off."""

_PINGRESP: Final = b"\xd0\x00"


@final
class Connection(Host):
    """An asyncio protocol (duck-typed: native classes cannot inherit it) and the host of its client's session."""

    def __init__(self, broker: "Broker", listener: str) -> None:
        self.broker = broker
        self.listener = listener
        self.transport: asyncio.Transport | None = None
        self.decoder = Decoder(broker.max_packet_size, broker.router.cache)
        self.session: Session | None = None
        self.client: Client | None = None
        self.will: Will | None = None
        self.keep_alive = 0
        """Microseconds of silence after which the client is taken for gone; 0 = never."""
        self.heard_at = 0
        self.closing = False
        self.task: SessionTask | None = None
        self._control_backlog = 0

    # -- what asyncio calls

    def connection_made(self, transport: asyncio.Transport) -> None:
        """A client has connected; it must say CONNECT before long."""
        self.transport = transport
        self.heard_at = monotonic_us()
        self.broker.connected(self)
        if self.broker.connect_timeout:
            self.broker.wheel.add(self.heard_at + self.broker.connect_timeout, HandshakeTimer(self))

    def data_received(self, data: bytes) -> None:
        """Handle every packet that is complete, then write what they have caused."""
        if self.closing:
            return
        now = monotonic_us()
        self.heard_at = now
        try:
            self.decoder.feed(data)
            packet = self.decoder.next_packet()
            while packet is not None:
                session = self.session
                if session is None:
                    self._first_packet(packet, now)
                elif isinstance(packet, Publish):
                    packet.received_at = now
                    if session.accept(packet, now):
                        session.answer(packet, self.broker.publish(packet, session.outbound, now))
                elif isinstance(packet, Puback):
                    session.acknowledge(packet_types.PUBACK, packet.packet_id, packet.reason_code, now)
                else:
                    self._on_packet(packet, session, now)
                if self.closing:
                    return
                packet = self.decoder.next_packet()
        except MQTTError as error:
            self.fail(error)
            return
        if self.session is not None:
            if self.session.outbound.drain(now):
                self.wake()
            self.flush()

    def eof_received(self) -> bool:
        """The client will send no more: the connection closes, even if the client does not take what is left for it."""
        self.close()
        return False

    def connection_lost(self, error: Exception | None) -> None:
        """The connection is gone, from whichever side."""
        self.closing = True
        self.broker.disconnected(self, monotonic_us())
        self.transport = None
        self.decoder = Decoder()  # timers may keep this object for a while, but not what the client began to send

    def pause_writing(self) -> None:
        """The send path is congested from now on."""
        if self.session is not None:
            self.session.outbound.pause(monotonic_us())

    def resume_writing(self) -> None:
        """The send path can take more: drain what has queued."""
        session = self.session
        if session is None:
            return
        now = monotonic_us()
        session.outbound.resume(now)
        if session.reading_paused_time.running and self.transport is not None:
            session.reading_paused_time.stop(now)
            self.transport.resume_reading()
        self._control_backlog = 0
        self.wake()

    # -- what the session asks for

    def wake(self) -> None:
        """Let the session task run its passes."""
        task = self.task
        if task is not None:
            task.wake()

    def arm(self, at: int) -> None:
        """Have the session's timers looked at, at about `at`."""
        if self.session is not None:
            self.broker.wheel.add(at, SessionTimer(self.session))

    def report(self, event: str) -> None:
        """Log it, with who it is about."""
        self.broker.report(event, self.client)

    # -- packets

    def _first_packet(self, packet: Packet, now: int) -> None:
        if not isinstance(packet, Connect):
            raise ProtocolError("the first packet must be CONNECT [MQTT-3.1.0-1]")
        connect(self.broker, self, packet, now)

    def _on_packet(self, packet: Packet, session: Session, now: int) -> None:
        if isinstance(packet, Pubrec):
            session.acknowledge(packet_types.PUBREC, packet.packet_id, packet.reason_code, now)
        elif isinstance(packet, Pubrel):
            session.release(packet.packet_id)
        elif isinstance(packet, Pubcomp):
            session.acknowledge(packet_types.PUBCOMP, packet.packet_id, packet.reason_code, now)
        elif isinstance(packet, Pingreq):
            session.outbound.outbox.add_control(_PINGRESP)  # [MQTT-3.12.4-1]
        elif isinstance(packet, Subscribe):
            subscribe(self.broker, session, packet, now)
        elif isinstance(packet, Unsubscribe):
            unsubscribe(self.broker, session, packet)
        elif isinstance(packet, Disconnect):
            self._on_disconnect(packet)
        elif isinstance(packet, Connect):
            raise ProtocolError("a second CONNECT on one connection [MQTT-3.1.0-2]")
        else:
            raise ProtocolError(f"{type(packet).__name__} is not for a client to send here")

    def _on_disconnect(self, packet: Disconnect) -> None:
        if self.client is not None:
            self.client.change_expiry(packet, self.broker.max_session_expiry_interval)
        if packet.reason_code == reason_codes.SUCCESS:
            self.will = None  # [MQTT-3.14.4-3]
        self.close()

    # -- writing and closing

    def flush(self) -> None:
        """Write the outbox."""
        session = self.session
        transport = self.transport
        if session is None or transport is None:
            return
        session.inbound.unwritten = 0
        outbox = session.outbound.outbox
        pieces = outbox.pieces
        count = len(pieces)
        if count == 0:
            return
        deliveries = outbox.delivery_bytes
        outbox.pieces = []
        outbox.delivery_bytes = 0
        if count == 1:
            transport.write(pieces[0])
        elif deliveries > LARGE_PIECE * count:
            transport.writelines(pieces)
        else:
            transport.write(b"".join(pieces))
        if session.outbound.congested and not deliveries:
            self._hold_back(session, transport, pieces)

    def _hold_back(self, session: Session, transport: asyncio.Transport, pieces: list[bytes]) -> None:
        """Acknowledgements are never dropped (FC-15), so who does not read them is not read either."""
        for piece in pieces:
            self._control_backlog += len(piece)
        if self._control_backlog > CONTROL_BACKLOG and not session.reading_paused_time.running:
            session.reading_paused_time.start(monotonic_us())
            transport.pause_reading()

    def fail(self, error: MQTTError) -> None:
        """The client broke a rule: tell it which, if its version has words for that, and close [MQTT-4.13.1-1]."""
        self.broker.refused(self, error)
        transport = self.transport
        if self.session is not None:
            self.close(error.reason_code)
        elif transport is not None:
            answer = refusal(error, self.decoder.version)
            if answer:
                transport.write(answer)
            self.close()

    def close(self, reason_code: int = reason_codes.SUCCESS) -> None:
        """Write what is left, for MQTT 5 the reason too unless it is success, and close.

        The session is free at once. A client that does not take what has been written is cut off.
        """
        transport = self.transport
        if self.closing or transport is None:
            return
        self.flush()
        self.closing = True
        if reason_code != reason_codes.SUCCESS and self.session is not None and self.session.version == 5:
            transport.write(Disconnect(reason_code).encode(5))
        transport.close()
        now = monotonic_us()
        self.broker.wheel.add(now + CLOSE_TIMEOUT, AbortTimer(self))
        self.broker.part(self, now)

    def abort(self) -> None:
        """Cut the connection off, whatever is left to write."""
        if self.transport is not None:
            self.transport.abort()

    def start(self, session: Session) -> None:
        """The handshake is done: run the session."""
        self.session = session
        if self.keep_alive:
            self.broker.wheel.add(self.heard_at + self.keep_alive, KeepAliveTimer(self))
        self.task = SessionTask(self, session.outbound, self.broker.run_queue)
        self.task.wake()


@final
class AbortTimer(Timer):
    """Cuts off a connection that does not finish closing."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def due(self, now: int) -> None:
        """Abort, unless it is gone."""
        self.connection.abort()


@final
class HandshakeTimer(Timer):
    """Closes a connection that has not said CONNECT in time."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def wanted(self) -> bool:
        """Not when it has a session, or is gone."""
        return self.connection.session is None and not self.connection.closing

    def due(self, now: int) -> None:
        """Close it."""
        if self.wanted():
            self.connection.close()


@final
class KeepAliveTimer(Timer):
    """Closes a connection whose client has been silent for longer than its keepalive allows [MQTT-3.1.2-22]."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def wanted(self) -> bool:
        """Not when it is closed anyway."""
        return not self.connection.closing

    def due(self, now: int) -> None:
        """Close it, or wait for the time that is left."""
        connection = self.connection
        if connection.closing:
            return
        deadline = connection.heard_at + connection.keep_alive
        if now >= deadline:
            connection.close(reason_codes.KEEP_ALIVE_TIMEOUT)
        else:
            connection.broker.wheel.add(deadline, self)
