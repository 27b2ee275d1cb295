"""One client's connection: bytes in, packets handled where they arrive, the session's outbox written once per pass."""

import asyncio
from typing import TYPE_CHECKING, Final, final

from broker.addresses.book import AddressFull
from broker.connection.backpressure import (
    CLOSED,
    LATER,
    PACED,
    RATE,
    UNREAD,
    Unread,
    end_reason,
    go_on_reading,
    stop_reading,
)
from broker.connection.dispatch import on_packet
from broker.connection.handshake import shake_hands
from broker.connection.held_back import HeldBack
from broker.connection.log import peer_of
from broker.connection.publishing import check, read_properties, refuse
from broker.connection.replies import PublishRefused, connack, disconnect
from broker.connection.timers import AbortTimer, HandshakeTimer, KeepAliveTimer, LingerTimer, RateTimer
from broker.connection.transport import left_in_socket
from broker.runtime.clock import monotonic_us
from broker.runtime.scheduler import SessionTask
from broker.sessions import SessionTimer
from protocol import packet_types, reason_codes
from protocol.acknowledgements import Puback
from protocol.connect import Will
from protocol.decoder import Decoder
from protocol.errors import MQTTError
from protocol.packet import Packet
from protocol.publish import Publish
from session.host import Host
from session.rate import Rate
from session.session import Session

if TYPE_CHECKING:
    from broker.auth.exchange import Authentication
    from broker.broker import Broker
    from broker.sessions import Client

LARGE_PIECE: Final = 4_096
"""Pieces of this mean size go to the transport as they are: joining them would copy more than a list costs."""
CONGESTED: Final = 65_536
"""Bytes in the transport from which on a send path is congested, until a quarter is left (FC-3)."""
READ_PACKETS: Final = 256
"""Packets handled at once; before more, sessions take up what these brought them. What a publisher sends faster than it
can be delivered waits in its socket, not in mailboxes."""
LINGER: Final = 1_000_000
"""Microseconds that a client has to read why it is disconnected, and to close."""
CLOSE_TIMEOUT: Final = 5_000_000
"""A client that does not take what is left for it within this time, in microseconds, is cut off."""


@final
class Connection(Host):
    """An asyncio protocol (duck-typed: native classes cannot inherit it) and the host of its client's session."""

    def __init__(self, broker: "Broker", listener: str) -> None:
        # First what each chunk and packet is handled with: with many connections each cache line counts.
        self.broker = broker
        self.transport: asyncio.Transport | None = None
        self.decoder = Decoder(broker.max_packet_size, broker.router.cache)
        self.session: Session | None = None
        self.task: SessionTask | None = None
        self.heard_at = 0
        self.unread_because = 0
        """The sum of the reasons not to read (broker/connection/backpressure.py); 0 = it is read."""
        self.closing = False
        self.ended = False
        """Whether the client will send no more."""
        self.paced = False
        """Whether queues hold the client back as a publisher (FC-16)."""
        self.told_gone = False
        """Whether the log has said that it has ended."""
        self._held_back: HeldBack | None = None
        """What it has sent meanwhile, and what of that is left."""
        self._rate: Rate | None = None
        """PUBLISHes that the client may send (FC-23); None = any number."""
        self._unread: Unread | None = None
        """What the client leaves unread, while its send path is congested."""
        self.client: Client | None = None
        self.client_id = ""
        """As CONNECT has it, or as given to its client; empty until then."""
        self.listener = listener
        self.authentication: Authentication | None = None
        """How far the client has shown who it is; None if it was not asked, or has not said CONNECT."""
        self.will: Will | None = None
        self.aliases: dict[int, bytes] | None = None
        """The client's topic aliases; None until the first."""
        self.maximum_packet_size = 0
        """The client's, in bytes, as soon as its CONNECT has been read; 0 = none stated."""
        self.keep_alive = 0
        """Microseconds of silence after which the client is taken for gone; 0 = never."""
        self.peer = ""
        """Where the client has connected from, for the log; empty until the connection is gone."""
        self.why = ""
        """Why it ends, in words; empty until then."""

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
        self.broker.totals.bytes_received += len(data)
        self.decoder.feed(data)
        if self.unread_because == 0:
            now = monotonic_us()
            run_queue = self.broker.run_queue
            run_queue.begin_reading()
            try:
                self._read(now)
            finally:
                run_queue.end_reading(now)

    def _read(self, now: int) -> None:
        """Handle what has come, up to READ_PACKETS; the run queue calls `read_on` when it is time for the rest."""
        self.heard_at = now
        count = 0
        more = published = False
        decoder = self.decoder
        try:
            packet = decoder.next_packet() if self._held_back is None else self._next_packet(self._held_back)
            while packet is not None:
                session = self.session
                if session is None:
                    shake_hands(self.broker, self, packet, now)
                elif self.paced and self._has_to_wait(packet, now):
                    count -= 1  # it counts when it is handled
                elif isinstance(packet, Publish):
                    packet.received_at = now
                    published = True
                    if packet.properties is not None:
                        read_properties(self, packet, packet.properties, now)
                    if session.accept(packet):
                        self._on_publish(session, packet, now)
                    if self._rate is not None:
                        self._spend(self._rate, now)
                elif isinstance(packet, Puback):
                    session.acknowledge(packet_types.PUBACK, packet.packet_id, packet.reason_code, now)
                else:
                    on_packet(self, session, packet, now)
                count += 1
                if self.unread_because or count == READ_PACKETS:
                    more = self.unread_because == 0
                    break
                packet = decoder.next_packet() if self._held_back is None else self._next_packet(self._held_back)
        except MQTTError as error:
            self._fail_in_turn(error)
        self.broker.totals.packets_received += count
        if self.session is not None:
            self._end_reading(self.session, more, published, now)

    def _next_packet(self, held_back: HeldBack) -> Packet | None:
        """FC-16: what has been held back goes first, once it may."""
        if not self.paced:
            packet = held_back.take()
            if packet is not None:
                return packet
            self._held_back = None
        return self.decoder.next_packet()

    def _has_to_wait(self, packet: Packet, now: int) -> bool:
        """FC-16: let a packet wait if it is not one that goes on, and read no further if enough waits."""
        held_back = self._held_back
        if held_back is None:
            held_back = self._held_back = HeldBack()
        if held_back.goes_on(packet):
            return False
        held_back.add(packet)
        if held_back.full:
            stop_reading(self, PACED, now)
        return True

    def _fail_in_turn(self, error: MQTTError) -> None:
        """The client broke a rule: what is held back (FC-16) has come before that, and counts."""
        if self.paced and self._held_back is not None:
            self.decoder = Decoder()  # what comes behind it does not
            self.read_to_end()
        if not self.closing:
            self.fail(error)

    def _on_publish(self, session: Session, publish: Publish, now: int) -> None:
        """Route a PUBLISH that the session has accepted, and answer it."""
        broker = self.broker
        try:
            if broker.selective or publish.properties is not None:
                check(broker, publish)
            matched = broker.publish(publish, session)
        except PublishRefused as refused:
            refuse(self, session, publish, refused, now)
            return
        except AddressFull as full:
            broker.addresses.overflow(self, session, publish, full.address, now)
            return
        session.answer(publish, matched, now)

    def _spend(self, rate: Rate, now: int) -> None:
        """FC-23: note a PUBLISH, and read no further if it was the last one for now."""
        rate.spend(now)
        if not (rate.available(now) or self.ended or self.closing):
            stop_reading(self, RATE, now)
            self.broker.wheel.add(rate.next_at(now), RateTimer(self))
            if self.session is not None:
                self.session.throttle(True, now)

    def _end_reading(self, session: Session, more: bool, published: bool, now: int) -> None:
        """Write the answers. Read no further for now if there is `more` in the chunk, or sessions do not keep up."""
        if session.outbound.drain(now):
            self.wake()
        self.flush()
        if more or (published and self.broker.run_queue.behind):
            stop_reading(self, LATER, now)
            self.broker.run_queue.read_later(self)

    def read_on(self, now: int) -> None:
        """Sessions have caught up: handle what has been left of the chunk."""
        if self.closing:
            return
        if self.unread_because != LATER and not self.ended:
            self.unread_because &= ~LATER  # until the last of the others ends and gets in line again
            return
        self.unread_because = 0
        self._read(now)
        go_on_reading(self, now)

    def eof_received(self) -> bool:
        """The client will send no more: the connection closes, even if the client does not take what is left for it."""
        if self.transport is not None and not self.closing:
            self.why = self.transport.get_extra_info("failure", "")
        self.read_to_end()
        self.close()
        return False

    def read_to_end(self) -> None:
        """Handle all that has come [MQTT-3.14.4-3], whatever speaks against reading."""
        self.ended = True
        self.paced = False
        self.unread_because |= LATER
        while (self.unread_because or self._held_back is not None) and not self.closing:
            self.read_on(monotonic_us())

    def connection_lost(self, error: Exception | None) -> None:
        """The connection is gone, from whichever side."""
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
        self.broker.disconnected(self, monotonic_us())
        self.decoder = Decoder()  # timers may keep this object for a while, but not what the client began to send
        self._held_back = None

    def pause_writing(self) -> None:
        """The send path is congested from now on."""
        if self.session is not None and self.transport is not None:
            self.session.outbound.pause(monotonic_us())
            self._unread = Unread(self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        """The send path can take more: drain what has queued."""
        session = self.session
        if session is None:
            return
        now = monotonic_us()
        session.outbound.resume(now)
        self._unread = None
        end_reason(self, UNREAD)
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

    def report(self, event: str, detail: str = "") -> None:
        """Log it, with who it is about."""
        self.broker.report(event, self.client, detail)

    def let_in(self, now: int) -> None:
        """Route what has waited for a packet id, as if it had just come (FC-22)."""
        session = self.session
        publish = None if session is None else session.let_in()
        try:
            while session is not None and publish is not None:
                publish.received_at = now
                self._on_publish(session, publish, now)
                publish = session.let_in()
        except MQTTError as error:
            self.fail(error)

    def disconnect(self, reason_code: int, reason: str) -> None:
        """Close, and say why."""
        self.close(reason_code, reason)

    def pause_publishing(self) -> None:
        """FC-16: let the client's PUBLISHes wait, unless they are its last ones."""
        if self.ended or self.closing:
            return
        self.paced = True
        if self._held_back is not None and self._held_back.full:
            stop_reading(self, PACED, monotonic_us())

    def resume_publishing(self) -> None:
        """FC-16: handle the client's PUBLISHes again."""
        self.paced = False
        if self.unread_because & PACED:
            end_reason(self, PACED)
        elif self._held_back is not None and self.unread_because == 0:
            stop_reading(self, LATER, monotonic_us())
            self.broker.run_queue.resume(self)

    # -- writing and closing

    def write(self, data: bytes) -> None:
        """Write at once, ahead of what is in the outbox."""
        if self.transport is not None:
            self.broker.totals.bytes_sent += len(data)
            self.transport.write(data)

    def flush(self) -> None:
        """Write the outbox."""
        session = self.session
        transport = self.transport
        if session is None or transport is None:
            return
        outbox = session.outbound.outbox
        pieces = outbox.pieces
        count = len(pieces)
        if count == 0:
            return
        deliveries = outbox.delivery_bytes
        outbox.pieces = []
        outbox.delivery_bytes = 0
        totals = self.broker.totals
        if count > 1 and deliveries > LARGE_PIECE * count:
            for piece in pieces:
                totals.bytes_sent += len(piece)
            transport.writelines(pieces)
        else:
            data = pieces[0] if count == 1 else b"".join(pieces)
            totals.bytes_sent += len(data)
            transport.write(data)
        unread = self._unread
        if unread is None:
            return
        if deliveries:
            too_many = unread.cannot_be(session.outbound, deliveries, transport.get_write_buffer_size())
        else:
            too_many = unread.too_many_answers(pieces)
        if too_many:  # who does not read is not read either
            stop_reading(self, UNREAD, monotonic_us())

    def fail(self, error: MQTTError) -> None:
        """The client broke a rule: tell it which, if its version has words for that, and close [MQTT-4.13.1-1]."""
        self.broker.refused(self, error)
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
        """Write what is left, for MQTT 5 the reason too unless it is success, in code and words, and close.

        The session is free at once. A client that does not take what has been written is cut off. `told`: the reason
        has been written already.
        """
        if self.closing:
            return
        self.why = reason or self.why or ("the connection was closed by the client" if self.ended else "")
        transport = self.transport
        if transport is None:
            self._begin_closing()  # `connection_lost` handles what has come last, and parts
            return
        self.flush()
        self._begin_closing()
        if reason_code != reason_codes.SUCCESS and self.session is not None and self.session.version == 5:
            packet = disconnect(reason_code, reason, self.maximum_packet_size)
            if packet:
                self.broker.totals.disconnects_sent += 1
                self.write(packet)
                told = True
        now = monotonic_us()
        if told and transport.can_write_eof():
            # A socket that is closed with bytes unread resets the connection, and the client never reads the reason:
            # so what it still sends is taken, and thrown away, until it closes too.
            transport.write_eof()
            transport.resume_reading()
            self.broker.wheel.add(now + LINGER, LingerTimer(self))
        else:
            transport.close()
        self.broker.wheel.add(now + CLOSE_TIMEOUT, AbortTimer(self))
        self.broker.part(self, now)

    def _begin_closing(self) -> None:
        self.closing = True
        self.unread_because = CLOSED

    def end_lingering(self) -> None:
        """Close on a client that has been told why and has had the time to read it."""
        transport = self.transport
        if transport is not None and transport.get_write_buffer_size() == 0:
            transport.close()

    def abort(self) -> None:
        """Cut the connection off, whatever is left to write or to handle."""
        self._begin_closing()
        if self.transport is not None:
            self.why = self.why or "cut off by the broker"
            self.transport.abort()

    def start(self, session: Session) -> None:
        """The handshake is done: run the session."""
        self.session = session
        if self.keep_alive:
            self.broker.wheel.add(self.heard_at + self.keep_alive, KeepAliveTimer(self))
        if self.transport is not None:
            # FC-10 counts what waits there: with a byte window, what holds anything is congested.
            self.transport.set_write_buffer_limits(CONGESTED if session.limits.consumer_window_size < 0 else 0)
        if self.broker.producer_max_rate:
            self._rate = Rate(self.broker.producer_max_rate, self.heard_at)
        self.task = SessionTask(self, session.outbound, self.broker.run_queue)
        self.task.wake()
        self.broker.addresses.producers.limit(self, session, self.heard_at)
