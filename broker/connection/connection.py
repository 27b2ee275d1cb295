"""One client's connection: it reads and handles packets, and writes the session's outbox once per pass."""

import asyncio
from typing import Final, final

from broker.auth.exchange import Authentication
from broker.clients import Client
from broker.connection.dispatch import on_packet
from broker.connection.handlers import Handlers
from broker.connection.held_back import HeldBack
from broker.connection.log import log_disconnected, log_refused, peer_of
from broker.connection.replies import connack, disconnect
from broker.connection.timers import AbortTimer, HandshakeTimer, KeepAliveTimer, LingerTimer, RateTimer
from broker.connection.transport import left_in_socket
from broker.connection.undrained import Undrained
from broker.runtime.clock import monotonic_us
from broker.runtime.endpoint import CLOSED, LATER, PACED, RATE, UNDRAINED, Endpoint
from broker.runtime.scheduler import SessionTask
from broker.sessions import SessionTimer
from protocol import packet_types, reason_codes
from protocol.acknowledgements import Puback
from protocol.connect import Will
from protocol.decoder import Decoder
from protocol.errors import MQTTError
from protocol.packet import Packet
from protocol.publish import Publish
from session.rate import Rate
from session.session import Session

LARGE_PIECE: Final = 4_096
"""From this mean size on, pieces go to the transport as a list: joining them would cost more."""
CONGESTED: Final = 65_536
"""High-water mark of the transport buffer in bytes; a congested send path stays so until a quarter is left (FC-3)."""
READ_PACKETS: Final = 256
"""Packets of a connection handled at once. Then sessions run their passes, so that what a fast publisher sends waits in
its socket, not in mailboxes."""
LINGER: Final = 1_000_000
"""Microseconds in which a client can read why it is disconnected, and close."""
CLOSE_TIMEOUT: Final = 5_000_000
"""Microseconds in which a client has to drain what is left; then its connection is aborted."""


@final
class Connection(Endpoint):
    """An asyncio protocol (duck-typed: native classes cannot inherit it) and the host of its client's session."""

    def __init__(self, handlers: Handlers, listener: str) -> None:
        super().__init__()
        # Attributes used for each chunk and packet come first: with many connections each cache line counts.
        self.handlers = handlers
        self.transport: asyncio.Transport | None = None
        self.decoder = Decoder(handlers.settings.max_packet_size, handlers.known_topics)
        self.session: Session | None = None
        self.task: SessionTask | None = None
        self.heard_at = 0
        self.paused_because = 0
        """The sum of the reasons why reading is paused (broker/runtime/endpoint.py); 0 = it is not."""
        self.ended = False
        """Whether the client will send no more."""
        self.paced = False
        """Whether the client's PUBLISHes are held back (FC-16)."""
        self.told_gone = False
        """Whether its end has been logged."""
        self._held_back: HeldBack | None = None
        """Packets received while paced and not handled yet."""
        self._rate: Rate | None = None
        """PUBLISHes that the client may send (FC-23); None = any number."""
        self._undrained: Undrained | None = None
        """What the client leaves undrained, while its send path is congested."""
        self.client: Client | None = None
        self.client_id = ""
        """From CONNECT, or assigned by the broker; empty before that."""
        self.listener = listener
        self.authentication: Authentication | None = None
        """The authentication exchange; None without an Authentication Method, or before CONNECT."""
        self.will: Will | None = None
        self.aliases: dict[int, bytes] | None = None
        """The client's topic aliases; None until the first."""
        self.maximum_packet_size = 0
        """The client's Maximum Packet Size; 0 = none, or before CONNECT."""
        self.keep_alive = 0
        """Microseconds without a packet after which the connection is closed; 0 = never."""
        self.peer = ""
        """The peer address, for the log; empty until the connection is closed."""
        self.why = ""
        """Why the connection ends; empty until then."""

    # -- what asyncio calls

    def connection_made(self, transport: asyncio.Transport) -> None:
        """A client has connected; CONNECT has to follow in time."""
        self.transport = transport
        self.heard_at = monotonic_us()
        self.handlers.connections.add(self)
        self.handlers.totals.sockets += 1
        timeout = self.handlers.settings.connect_timeout
        if timeout:
            self.handlers.wheel.add(self.heard_at + timeout, HandshakeTimer(self))

    def data_received(self, data: bytes) -> None:
        """Handle all complete packets, then write the answers."""
        if self.closing:
            return
        self.handlers.totals.bytes_received += len(data)
        self.decoder.feed(data)
        if self.paused_because == 0:
            now = monotonic_us()
            run_queue = self.handlers.run_queue
            run_queue.begin_reading()
            try:
                self._read(now)
            finally:
                run_queue.end_reading(now)

    def _read(self, now: int) -> None:
        """Handle up to READ_PACKETS packets; the run queue calls `read_on` for the rest."""
        self.heard_at = now
        count = 0
        more = published = False
        decoder = self.decoder
        publishing = self.handlers.publishing
        try:
            packet = decoder.next_packet() if self._held_back is None else self._next_packet(self._held_back)
            while packet is not None:
                session = self.session
                if session is None:
                    self.handlers.handshake.on_packet(self, packet, now)
                elif self.paced and self._has_to_wait(packet, now):
                    count -= 1  # counted when it is handled
                elif isinstance(packet, Publish):
                    packet.received_at = now
                    published = True
                    if packet.properties is not None:
                        publishing.read_properties(self, packet, packet.properties, now)
                    if session.inbound.accept(packet):
                        publishing.publish(self, session, packet, now)
                    if self._rate is not None:
                        self._spend(self._rate, now)
                elif isinstance(packet, Puback):
                    session.acknowledge(packet_types.PUBACK, packet.packet_id, packet.reason_code, now)
                else:
                    on_packet(self, session, packet, now)
                count += 1
                if self.paused_because or count == READ_PACKETS:
                    more = self.paused_because == 0
                    break
                packet = decoder.next_packet() if self._held_back is None else self._next_packet(self._held_back)
        except MQTTError as error:
            self._fail_in_turn(error)
        self.handlers.totals.packets_received += count
        if self.session is not None:
            self._end_reading(self.session, more, published, now)

    def _next_packet(self, held_back: HeldBack) -> Packet | None:
        """FC-16: packets held back go first, once the client is not paced."""
        if not self.paced:
            packet = held_back.take()
            if packet is not None:
                return packet
            self._held_back = None
        return self.decoder.next_packet()

    def _has_to_wait(self, packet: Packet, now: int) -> bool:
        """FC-16: hold a packet back unless it may overtake, and pause reading if enough is held back."""
        held_back = self._held_back
        if held_back is None:
            held_back = self._held_back = HeldBack()
        if held_back.goes_on(packet):
            return False
        held_back.add(packet)
        if held_back.full:
            self.pause_reading(PACED, now)
        return True

    def _fail_in_turn(self, error: MQTTError) -> None:
        """Handle the packets that are held back (FC-16), which came before the error; then fail."""
        if self.paced and self._held_back is not None:
            self.decoder = Decoder()  # ignore what follows the error
            self.read_to_end()
        if not self.closing:
            self.fail(error)

    def _spend(self, rate: Rate, now: int) -> None:
        """FC-23: count a PUBLISH, and pause reading if the rate is used up."""
        rate.spend(now)
        if not (rate.available(now) or self.ended or self.closing):
            self.pause_reading(RATE, now)
            self.handlers.wheel.add(rate.next_at(now), RateTimer(self))
            if self.session is not None:
                self.session.throttle(True, now)

    def _end_reading(self, session: Session, more: bool, published: bool, now: int) -> None:
        """Write the answers. Pause reading if there is `more` in the chunk, or if sessions do not keep up."""
        if session.drain(now):
            self.wake()
        self.flush()
        if more or (published and self.handlers.run_queue.behind):
            self.pause_reading(LATER, now)
            self.handlers.run_queue.read_later(self)

    def read_on(self, now: int) -> None:
        """Handle the rest of the chunk."""
        if self.closing:
            return
        if self.paused_because != LATER and not self.ended:
            self.paused_because &= ~LATER  # the end of the last other reason queues it again
            return
        self.paused_because = 0
        self._read(now)
        if self.paused_because == 0 and self.session is not None and self.transport is not None:
            self.session.reading_paused_time.stop(now)
            self.transport.resume_reading()

    def pause_reading(self, reason: int, now: int) -> None:
        """Stop reading; what has been read already waits in the decoder."""
        self.paused_because |= reason
        if self.session is not None and self.transport is not None:
            self.session.reading_paused_time.start(now)
            self.transport.pause_reading()

    def resume_reading(self, reason: int) -> None:
        """Clear a reason. If it was the last one, the run queue resumes reading."""
        if self.paused_because & reason:
            self.paused_because &= ~reason
            if self.paused_because == 0:
                self.paused_because = LATER
                if reason == UNDRAINED:
                    self.handlers.run_queue.read_later(self)
                else:
                    self.handlers.run_queue.resume(self)

    @property
    def host(self) -> str:
        """The peer address without its port; empty if it is unknown."""
        peer = None if self.transport is None else self.transport.get_extra_info("peername")
        return peer[0] if peer else ""

    def eof_received(self) -> bool:
        """The client will send no more: handle what has come, and close."""
        if self.transport is not None and not self.closing:
            self.why = self.transport.get_extra_info("failure", "")
        self.read_to_end()
        self.close()
        return False

    def read_to_end(self) -> None:
        """Handle everything received [MQTT-3.14.4-3], even if reading is paused."""
        self.ended = True
        self.paced = False
        self.paused_because |= LATER
        while (self.paused_because or self._held_back is not None) and not self.closing:
            self.read_on(monotonic_us())

    def connection_lost(self, error: Exception | None) -> None:
        """The connection is closed, by either side."""
        transport = self.transport
        self.peer = peer_of(transport)
        self.transport = None
        if not self.closing:
            if transport is not None:
                self.why = transport.get_extra_info("failure", "")
            if error is not None and transport is not None:
                self.decoder.feed(left_in_socket(transport))
            self.read_to_end()
        self._begin_closing()
        if not self.why:
            self.why = "the connection was closed by the client" if error is None else str(error)
        self.part(monotonic_us())
        if self.handlers.events.debug:
            log_disconnected(self)
        self.handlers.connections.remove(self)
        self.decoder = Decoder()  # timers may still hold this object: free the incomplete packet
        self._held_back = None

    def pause_writing(self) -> None:
        """The send path is congested from now on."""
        if self.session is not None and self.transport is not None:
            self.session.set_congested(True, monotonic_us())
            self._undrained = Undrained(self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        """The send path is no longer congested: drain the mqueue."""
        session = self.session
        if session is None:
            return
        now = monotonic_us()
        session.set_congested(False, now)
        self._undrained = None
        self.resume_reading(UNDRAINED)
        self.wake()

    # -- what the session asks for

    def wake(self) -> None:
        """Let the session task run its passes."""
        task = self.task
        if task is not None:
            task.wake()

    def arm(self, at: int) -> None:
        """Check the session's timers at about `at`."""
        if self.session is not None:
            self.handlers.wheel.add(at, SessionTimer(self.session))

    def report(self, event: str, detail: str = "") -> None:
        """Log it, with the client id."""
        self.handlers.events.report(event, "" if self.client is None else self.client.session.client_id, detail)

    def let_in(self, now: int) -> None:
        """Route PUBLISHes parked for a packet id, as if they had just come (FC-22)."""
        session = self.session
        publish = None if session is None else session.inbound.let_in()
        try:
            while session is not None and publish is not None:
                publish.received_at = now
                self.handlers.publishing.publish(self, session, publish, now)
                publish = session.inbound.let_in()
        except MQTTError as error:
            self.fail(error)

    def disconnect(self, reason_code: int, reason: str) -> None:
        """Close, with a reason."""
        self.close(reason_code, reason)

    def pause_publishing(self) -> None:
        """FC-16: hold back the client's PUBLISHes, unless its stream has ended."""
        if self.ended or self.closing:
            return
        self.paced = True
        if self._held_back is not None and self._held_back.full:
            self.pause_reading(PACED, monotonic_us())

    def resume_publishing(self) -> None:
        """FC-16: handle the client's PUBLISHes again."""
        self.paced = False
        if self.paused_because & PACED:
            self.resume_reading(PACED)
        elif self._held_back is not None and self.paused_because == 0:
            self.pause_reading(LATER, monotonic_us())
            self.handlers.run_queue.resume(self)

    # -- writing and closing

    def write(self, data: bytes) -> None:
        """Write at once, ahead of what is in the outbox."""
        if self.transport is not None:
            self.handlers.totals.bytes_sent += len(data)
            self.transport.write(data)

    def flush(self) -> None:
        """Write the outbox."""
        session = self.session
        transport = self.transport
        if session is None or transport is None:
            return
        deliveries = session.delivery_bytes()
        pieces = session.data_to_send()
        count = len(pieces)
        if count == 0:
            return
        totals = self.handlers.totals
        if count > 1 and deliveries > LARGE_PIECE * count:
            for piece in pieces:
                totals.bytes_sent += len(piece)
            transport.writelines(pieces)
        else:
            data = pieces[0] if count == 1 else b"".join(pieces)
            totals.bytes_sent += len(data)
            transport.write(data)
        undrained = self._undrained
        if undrained is None:
            return
        if deliveries:
            too_many = undrained.exceeds_plausible(session, deliveries, transport.get_write_buffer_size())
        else:
            too_many = undrained.too_many_answers(pieces)
        if too_many:  # FC-15: stop reading a client that does not drain its deliveries
            self.pause_reading(UNDRAINED, monotonic_us())

    def fail(self, error: MQTTError) -> None:
        """Send the error's reason code, if the client's version has one, and close [MQTT-4.13.1-1]."""
        log_refused(self, error)
        transport = self.transport
        if self.session is not None:
            self.close(error.reason_code, error.message)
        elif transport is not None:
            limit = max(self.maximum_packet_size, error.maximum_packet_size)
            answer = connack(error, self.decoder.version, limit)
            if answer:
                self.write(answer)
            self.close(reason=error.message, told=answer != b"")

    def close(self, reason_code: int = reason_codes.SUCCESS, reason: str = "", told: bool = False) -> None:
        """Write what is left, for MQTT 5 also DISCONNECT unless the reason is success, and close.

        The session is detached at once. If the client does not drain what was written, the connection is aborted.
        `told`: the reason has been written already.
        """
        if self.closing:
            return
        self.why = reason or self.why or ("the connection was closed by the client" if self.ended else "")
        transport = self.transport
        if transport is None:
            self._begin_closing()  # `connection_lost` handles the last bytes, and detaches
            return
        self.flush()
        self._begin_closing()
        if reason_code != reason_codes.SUCCESS and self.session is not None and self.session.version == 5:
            packet = disconnect(reason_code, reason, self.maximum_packet_size)
            if packet:
                self.handlers.totals.disconnects_sent += 1
                self.write(packet)
                told = True
        now = monotonic_us()
        if told and transport.can_write_eof():
            # Closing a socket that holds received bytes resets the connection, and the client may lose the reason:
            # so read and ignore what it still sends, until it closes too.
            transport.write_eof()
            transport.resume_reading()
            self.handlers.wheel.add(now + LINGER, LingerTimer(self))
        else:
            transport.close()
        self.handlers.wheel.add(now + CLOSE_TIMEOUT, AbortTimer(self))
        self.part(now)

    def part(self, now: int) -> None:
        """Detach the session, if there is one: the connection has ended, or is about to."""
        client = self.client
        if client is not None and client.connection is self:
            client.connection = None
            self.detach(now, True)

    def detach(self, now: int, stays: bool) -> None:
        """Detach the session. It ends if `stays` is False (clean start), or if it may not outlive the connection."""
        client = self.client
        assert client is not None  # it has a session
        if self.handlers.events.debug:
            log_disconnected(self)
        if self.task is not None:
            self.task.stop()
            self.task = None
        self.session = None
        self.client = None
        will = self.will
        self.will = None
        self.handlers.sessions.detach(client, will, now, stays)

    def _begin_closing(self) -> None:
        self.closing = True
        self.paused_because = CLOSED

    def end_lingering(self) -> None:
        """Close: the client has had the time to read the reason."""
        transport = self.transport
        if transport is not None and transport.get_write_buffer_size() == 0:
            transport.close()

    def abort(self) -> None:
        """Close at once, without writing or handling what is left."""
        self._begin_closing()
        if self.transport is not None:
            self.why = self.why or "cut off by the broker"
            self.transport.abort()

    def start(self, session: Session) -> None:
        """The handshake is done: run the session."""
        self.session = session
        if self.keep_alive:
            self.handlers.wheel.add(self.heard_at + self.keep_alive, KeepAliveTimer(self))
        if self.transport is not None:
            # FC-10: with a byte window, a transport that holds anything is congested.
            self.transport.set_write_buffer_limits(CONGESTED if session.limits.consumer_window_size < 0 else 0)
        if self.handlers.settings.producer_max_rate:
            self._rate = Rate(self.handlers.settings.producer_max_rate, self.heard_at)
        self.task = SessionTask(self, session, self.handlers.run_queue)
        self.task.wake()
        self.handlers.addresses.producers.limit(self, session, self.heard_at)
