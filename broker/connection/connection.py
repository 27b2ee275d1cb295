"""The core of a connection: one client's conversation. It does no I/O, and is handed the clock.

Its shell, `ClientSocket`, feeds the decoder and calls `handle_packets`. What is to be written is in the session's
outbox, with the commit that it waits for (FC-27). It asks `gate` to pause reading, and `socket` to write and to close.
What differs between a server and a client is in `handlers.side`.
"""

from typing import Final, final

from broker.connection.handlers import Handlers
from broker.connection.log import log_closed, log_disconnected
from broker.connection.newcomers import most_of_connect
from broker.connection.paced_packets import PacedPackets
from broker.connection.peer import Peer
from broker.connection.timers import HoldTimer, KeepAliveTimer, RateTimer
from broker.runtime.clock import monotonic_us
from broker.runtime.endpoint import CLOSED_SOCKET
from broker.runtime.read_gate import AUTHENTICATING, PACED, RATE
from broker.sessions import SessionTimer
from protocol import packet_types, reason_codes
from protocol.acknowledgements import Puback
from protocol.decoder import Decoder
from protocol.errors import MQTTError
from protocol.packet import Packet
from protocol.publish import Publish
from protocol.replies import shortened
from session.publish_rate import PublishRate
from session.session import Session

REFUSED: Final = 0x80
"""Reason codes from this one on say no."""
CONGESTED: Final = 65_536
"""High-water mark of the transport buffer in bytes; a congested send path stays so until a quarter is left (FC-3)."""
READ_PACKETS: Final = 256
"""Packets of a connection handled at once. Then sessions run their passes, so that what a fast publisher sends waits in
its socket, not in mailboxes."""


@final
class Connection(Peer):
    """The host of its client's session, once there is one."""

    def __init__(self, handlers: Handlers, listener: str) -> None:
        decoder = Decoder(most_of_connect(handlers.settings), handlers.known_topics)
        super().__init__(decoder, handlers.run_queue, listener)
        self.handlers = handlers
        self._held_back: PacedPackets | None = None
        """Packets received while paced and not handled yet."""
        self._rate: PublishRate | None = None
        """What the client may publish (FC-23, FC-31); None = any number."""

    # -- handling packets

    def handle_packets(self, now: int) -> None:  # noqa: C901, PLR0912, PLR0915 - it runs for each chunk: calls cost more
        """Handle up to READ_PACKETS packets; the run queue calls `handle_rest` for the rest."""
        self.heard_at = now
        count = 0
        published = False
        answers = False  # whether a packet may have been answered or freed a slot: one of QoS 0 does not
        decoder = self.decoder
        gate = self.gate
        publishing = self.handlers.publishing
        try:
            while (
                packet := self._next_packet(now) if self.paced or self._held_back is not None else decoder.next_packet()
            ) is not None:
                session = self.session
                if session is not None and isinstance(packet, Publish):
                    packet.received_at = now
                    packet.flow = session.flow
                    published = True
                    answers = answers or packet.qos > 0
                    if packet.properties is not None:
                        publishing.read_properties(self, packet, packet.properties, now)
                    if session.inbound.accept(packet):
                        publishing.publish(self, session, packet, now)
                    if self._rate is not None:
                        self._spend(self._rate, packet, now)
                elif session is not None and isinstance(packet, Puback) and packet.reason_code < REFUSED:
                    answers = True
                    session.sender.acknowledge(packet_types.PUBACK, packet.packet_id, packet.reason_code, now)
                else:
                    answers = True
                    self.handlers.side.on_packet(self, packet, now)
                count += 1
                if count == READ_PACKETS or gate.reasons or (decoder.at_end and self._held_back is None):
                    break
            else:  # what has been read ends inside a packet
                if self.session is not None:
                    self.handlers.incomplete.note(self, now)
        except MQTTError as error:
            self._fail_in_turn(error)
        self.handlers.totals.packets_received += count
        session = self.session
        if session is None:
            self.handlers.newcomers.note(self)
        elif answers:
            if session.outbound.backlog is not None and session.outbound.drain(now):
                self.wake()
            if session.outbox.pieces:
                self.socket.flush(session)
        more = count == READ_PACKETS and gate.reasons == 0
        if more or (published and self.handlers.run_queue.behind):  # or sessions do not keep up
            self._put_off(published, now)

    def _next_packet(self, now: int) -> Packet | None:
        """FC-16: while the client is paced the next packet that may overtake, afterwards first those held back.

        Pauses reading if enough is held back.
        """
        held_back = self._held_back
        if not self.paced:
            packet = None if held_back is None else held_back.take()
            if packet is not None:
                return packet
            self._held_back = None
            return self.decoder.next_packet()
        if held_back is None:
            held_back = self._held_back = PacedPackets()
        while not self.gate.reasons:
            packet = self.decoder.next_packet()
            if packet is None or held_back.may_overtake(packet):
                return packet
            held_back.add(packet)
            if self.session is not None and held_back.is_full(self.session.paces_publishers()):
                self.gate.pause(PACED, now)
        return None

    def _fail_in_turn(self, error: MQTTError) -> None:
        """Handle the packets that are held back (FC-16), which came before the error; then fail."""
        if self.paced and self._held_back is not None:
            self.decoder = Decoder()  # ignore what follows the error
            self.read_to_end()
        if not self.gate.closed:
            self.fail(error)

    def _spend(self, rate: PublishRate, publish: Publish, now: int) -> None:
        """FC-23, FC-31: count a PUBLISH, and pause reading if the rate is used up."""
        at = rate.spend(publish, now)
        if at > now and not (self.gate.ended or self.gate.closed):
            self.gate.pause(RATE, now)
            self.handlers.wheel.add(at, RateTimer(self))
            if self.session is not None:
                self.session.throttle(True, now)
            if self.client is not None and self.client.quota is not None:
                self.handlers.sessions.quotas.note_rate(self.client, rate.of_bytes, now)

    def limit_rate(self, now: int) -> None:
        """FC-23, FC-31: the rate by its limits and quota; the configuration may have changed while it is connected."""
        quota = None if self.client is None else self.client.quota
        per_second = 0 if self.session is None else self.session.limits.producer_max_rate
        bytes_per_second = 0 if quota is None else quota.producer_max_bytes
        self._rate = PublishRate(per_second, bytes_per_second, now) if per_second or bytes_per_second else None
        if self.gate.reasons & RATE and self.session is not None:
            self.session.throttle(False, now)
            self.gate.resume(RATE)

    def _put_off(self, published: bool, now: int) -> None:
        """Pause reading until the sessions keep up; for longer beyond the memory watermark (FC-32)."""
        gate = self.gate
        if published and self.handlers.run_queue.holding_back and not (gate.ended or gate.closed):
            HoldTimer(self).start(self.handlers.wheel, now)
        else:
            gate.put_off(now)

    def read_to_end(self) -> None:
        """Handle everything received [MQTT-3.14.4-3], even if reading is paused."""
        gate = self.gate
        gate.end()
        self.paced = False
        if gate.reasons & AUTHENTICATING:
            return  # what is behind CONNECT has to wait for the session
        while not gate.closed:
            gate.handle_rest(monotonic_us())
            if gate.reasons == 0 and self._held_back is None:
                return

    def pause_publishing(self) -> None:
        """FC-16: hold back the client's PUBLISHes, unless its stream has ended."""
        if self.gate.ended or self.gate.closed:
            return
        self.paced = True
        held_back = self._held_back
        if held_back is not None and self.session is not None and held_back.is_full(self.session.paces_publishers()):
            self.gate.pause(PACED, monotonic_us())

    def resume_publishing(self) -> None:
        """FC-16: handle the client's PUBLISHes again."""
        self.paced = False
        gate = self.gate
        if gate.reasons & PACED:
            gate.resume(PACED)
        elif self._held_back is not None and gate.reasons == 0:
            gate.pause(PACED, monotonic_us())
            gate.resume(PACED)  # what is held back is handled soon

    def read_acknowledgements(self) -> None:
        """FC-16: others are paced for the client's own queue. It drains when the client's acknowledgements are read."""
        if self.gate.reasons & PACED and self._held_back is not None and not self._held_back.is_full(True):
            self.gate.resume(PACED)

    # -- what the session asks for

    def wake(self) -> None:
        """Have the run queue run the session's passes."""
        if not self.awake:
            self.awake = True
            self.handlers.run_queue.wake(self)

    def run_pass(self, now: int) -> bool:
        """Run one pass of the session and write; returns whether another one has work to do."""
        session = self.session
        if session is None:
            return False  # detached since it was woken
        more = session.outbound.run_pass(now)
        self.socket.flush(session)
        return more

    def arm(self, at: int) -> None:
        """Check the session's timers at about `at`."""
        if self.session is not None:
            self.handlers.wheel.add(at, SessionTimer(self.session))

    def report(self, event: str, detail: str = "") -> None:
        """Log it, with the client id."""
        self.handlers.events.report(event, "" if self.client is None else self.client.session.client_id, detail)

    def route_parked(self, now: int) -> None:
        """Route PUBLISHes parked for a packet id, as if they had just come (FC-22)."""
        session = self.session
        publish = None if session is None else session.inbound.take_parked()
        try:
            while session is not None and publish is not None:
                publish.received_at = now
                self.handlers.publishing.publish(self, session, publish, now)
                publish = session.inbound.take_parked()
        except MQTTError as error:
            self.fail(error)

    # -- the session's beginning and end

    def start(self, session: Session, keep_alive: int) -> None:
        """The handshake is done: run the session. Close after `keep_alive` microseconds without a packet; 0 = never."""
        self.session = session
        self.decoder.maximum_packet_size = self.handlers.settings.max_packet_size
        self.handlers.newcomers.remove(self)
        self.handlers.handshakes.forget(self)
        if keep_alive:
            self.handlers.wheel.add(self.heard_at + keep_alive, KeepAliveTimer(self.handlers.wheel, self, keep_alive))
        # FC-10: with a byte window, a transport that holds anything is congested.
        self.socket.congest_at(CONGESTED if session.limits.consumer_window_size < 0 else 0)
        self.limit_rate(self.heard_at)
        if session.outbox.pieces or session.outbound.backlog is not None:
            self.wake()
        self.handlers.addresses.producers.limit(self.gate, session, self.heard_at)

    def fail(self, error: MQTTError) -> None:
        """Send the error's reason code, if the client's version has one, and close [MQTT-4.13.1-1]."""
        answer = self.handlers.side.refuse(self, error)
        if self.session is not None:
            self.close(error.reason_code, error.message)
        elif self.socket.transport is not None:
            if answer:
                self.socket.write(answer)
            self.close(reason=error.message, reason_sent=answer != b"")
        error.__traceback__ = None  # the decoder keeps the error, and its frames keep the decoder: a cycle

    def close(
        self,
        reason_code: int = reason_codes.SUCCESS,
        reason: str = "",
        reason_sent: bool = False,
        server_reference: str = "",
    ) -> None:
        """Write what is left and the reason, and close. The session is detached at once."""
        if self.gate.closed:
            return
        if reason_code != reason_codes.SUCCESS:
            self.ends_by = reason_code
        self.why = reason or self.why or (self.handlers.side.closed_by_other_end if self.gate.ended else "")
        session = self.session
        if self.socket.transport is None:
            self._begin_closing()  # `closed` detaches, once the last bytes are handled
            return
        if session is not None:
            self.socket.flush(session)
        self._begin_closing()
        if session is not None:
            packet = self.handlers.side.farewell(self, session, reason_code, reason, server_reference)
            if packet:
                self.socket.write(packet)
                reason_sent = True
        now = monotonic_us()
        self.socket.close(now, reason_sent)
        self._detach_session(now)

    def abort(self) -> None:
        """Close at once, without writing or handling what is left."""
        if not self.gate.closed:
            self.ends_by = reason_codes.UNSPECIFIED_ERROR
        self._begin_closing()
        if self.socket.transport is not None:
            self.why = self.why or "aborted by the broker"
            self.socket.abort()

    def _begin_closing(self) -> None:
        """Ignore further input, and give back what the client has sent; a login does not wait for its turn any longer.

        Timers may hold this object for another ten seconds, and anybody may open connections and close them.
        """
        self.gate.close()
        self.decoder.discard()
        if self.turn is not None:
            self.turn.give_up()
            self.turn = None
        self.handlers.newcomers.release(self)
        self.handlers.incomplete.release(self)
        self.client_id = shortened(self.client_id)  # for the log
        self.authentication = None
        self.aliases = None
        self._held_back = None

    def opened(self, now: int) -> None:
        """The socket is open."""
        self.heard_at = now
        self.handlers.connections.add(self)
        self.handlers.side.opened(self)

    def closed(self, failure: str, now: int) -> None:
        """The socket is closed, by either side; `failure`: how it has failed, empty = it has not."""
        self._begin_closing()
        self.why = self.why or failure or self.handlers.side.closed_by_other_end
        self._detach_session(now)
        if self.handlers.events.debug and not self.end_logged:
            log_closed(self.handlers.events, self)
        handlers = self.handlers
        handlers.connections.remove(self)
        handlers.newcomers.remove(self)
        for deadlines in (handlers.handshakes, handlers.lingering, handlers.aborts):
            deadlines.forget(self)
        handlers.side.closed(self, now)
        self.socket = CLOSED_SOCKET  # else the two would be garbage that refers to itself

    def _detach_session(self, now: int) -> None:
        """Detach the session, if there is one: the connection has ended or is about to end."""
        client = self.client
        if client is not None and client.connection is self:
            client.connection = None
            self.detach(now, True)

    def detach(self, now: int, keep: bool) -> None:
        """Detach the session. It ends if `keep` is False (clean start), or if it may not outlive the connection."""
        client = self.client
        assert client is not None  # it has a session
        self.handlers.totals.disconnects.count(self.ends_by)
        log_disconnected(self.handlers.events, self)
        client.note_disconnect(self.ends_by, now)
        self.session = None
        self.client = None
        will = self.will
        self.will = None
        self.handlers.sessions.detach(client, will, now, keep)
