"""PUBLISHes that one client sends: which are routed, and how each is acknowledged (FC-20 to FC-22, FC-25)."""

from typing import final

from protocol import properties as props
from protocol import reason_codes
from protocol.acknowledgements import Puback, Pubrec
from protocol.properties import Properties
from protocol.publish import Publish
from session.journal import ReceivedJournal
from session.limits import Limits
from session.outbox import PUBACK_HEAD, PUBCOMP_HEAD, PUBREC_HEAD
from session.received_ids import DUPLICATE, IGNORE, NO_ROOM, ReceivedIds
from session.sender import Sender


@final
class Inbound:
    """Accepts, parks and acknowledges PUBLISHes. Acknowledgements enter the outbox in order (FC-9)."""

    def __init__(self, limits: Limits, sender: Sender) -> None:
        self.problem_information = True
        """Whether the client wants a Reason String in acknowledgements too [MQTT-3.1.2-29]."""
        self.journal: ReceivedJournal | None = None
        """FC-27; None = its packet ids do not survive the process."""
        self._sender = sender
        self.connection = 0
        """The number of the current connection, or of the last one."""
        self._ids: ReceivedIds | None = None  # until the first PUBLISH of QoS 2, or that is parked

    def use_limits(self, limits: Limits) -> None:
        """Others, at once."""
        if self._ids is not None:
            self._ids.limits = limits

    def connect(self, problem_information: bool) -> None:
        """Attach a client."""
        self.problem_information = problem_information
        self.connection += 1
        if self._ids is not None:
            self._ids.connect()

    def disconnect(self) -> None:
        """Detach the client."""
        if self._ids is not None:
            self._ids.disconnect()

    def begin_anew(self) -> int:
        """The other end has lost its session: what it sends with a known packet id is new [MQTT-3.2.2-5].

        Returns the commit that has to be on disk before anything is asked of it (FC-27): else a restart would know the
        ids again, and take what is new for a duplicate. 0 = none.
        """
        commit = 0
        ids = [] if self._ids is None else self._ids.begin_anew()
        if self.journal is not None:
            for packet_id in ids:
                commit = self.journal.forget(packet_id)
        return commit

    def restore(self, packet_ids: list[int], now: int) -> None:
        """FC-27: packet ids that waited for PUBREL before the process began, oldest first."""
        if not packet_ids:
            return
        self._received_ids().restore(packet_ids, now)
        timeout = self._sender.limits.await_rel_timeout
        if timeout:
            self._sender.arm(now + timeout)  # FC-22

    @property
    def awaiting_rel_len(self) -> int:
        """How many QoS 2 packet ids wait for PUBREL."""
        return self._ids.awaiting_rel_len if self._ids is not None else 0

    def accept(self, publish: Publish) -> bool:
        """Count a received PUBLISH and decide whether it is to be routed (FC-20 to FC-22).

        If it returns True, call `answer`, `refuse` or `park` next. A PUBLISH that waits for a packet id (FC-22) is
        returned later by `take_parked`. Raises MQTTError when the connection must be closed.
        """
        counters = self._sender.counters
        if publish.qos == 0:
            counters.received_qos0 += 1
        elif publish.qos == 1:
            ids = self._ids  # None = none of its packet ids is in use
            if ids is not None:
                verdict = ids.accept_qos1(publish.packet_id, self._sender.outbox.version, counters)
                if verdict == IGNORE:
                    return False
            counters.received_qos1 += 1
        else:
            ids = self._received_ids()
            if ids.forgotten is not None and self._comes_again(ids, publish):
                return False
            verdict = ids.accept_qos2(publish.packet_id, self._sender.outbox.version, counters)
            if verdict == DUPLICATE:
                self._sender.outbox.add_acknowledgement(PUBREC_HEAD, publish.packet_id)
                return False
            if verdict == NO_ROOM:
                self._wait(ids, publish)
                return False
            if verdict == IGNORE:
                return False
            counters.received_qos2 += 1
        counters.received_bytes += publish.size
        return True

    def _comes_again(self, ids: ReceivedIds, publish: Publish) -> bool:
        """FC-22a: acknowledge a PUBLISH that was routed, and whose packet id has been forgotten since.

        Without DUP it is another one, and its id is in use again.
        """
        if publish.dup:
            again = ids.forgotten is not None and publish.packet_id in ids.forgotten
            if again:
                self._sender.outbox.add_acknowledgement(PUBREC_HEAD, publish.packet_id)
            return again
        if ids.reuse(publish.packet_id) and self.journal is not None:
            self.journal.forget(publish.packet_id)
        return False

    # -- PUBLISHes that wait for a packet id (FC-22)

    def _wait(self, ids: ReceivedIds, publish: Publish) -> None:
        if ids.wait(publish):
            limits = self._sender.limits
            self._sender.host.report(
                "max_awaiting_rel_reached",
                f"{ids.awaiting_rel_len} QoS 2 packet ids wait for PUBREL; session.max_awaiting_rel is "
                f"{limits.max_awaiting_rel}. Further ones are parked, up to session.producer_window_size, "
                f"{limits.producer_window_size} bytes",
            )

    def has_waiting(self) -> bool:
        """Whether a PUBLISH waits for a packet id."""
        return self._ids is not None and self._ids.waiting is not None

    def take_parked(self) -> Publish | None:
        """The PUBLISH that has waited longest for a packet id, if one is free; counted as received now."""
        publish = self._ids.take_parked() if self._ids is not None else None
        if publish is not None:
            counters = self._sender.counters
            counters.received_qos2 += 1
            counters.received_bytes += publish.size
        return publish

    # -- acknowledgements (FC-21)

    def answer(self, publish: Publish, matched: bool, now: int) -> None:
        """Acknowledge a routed PUBLISH, in MQTT 5 with 0x10 if no subscription `matched`."""
        if publish.qos == 0:
            return
        if publish.qos == 2:
            self._remember(publish.packet_id, now, True)
        head = PUBACK_HEAD if publish.qos == 1 else PUBREC_HEAD
        if not matched and self._sender.outbox.version == 5:
            self._sender.outbox.add_code(head, publish.packet_id, reason_codes.NO_MATCHING_SUBSCRIBERS)
        else:
            self._sender.outbox.add_acknowledgement(head, publish.packet_id)

    def refuse(self, publish: Publish, reason_code: int, reason: str = "") -> None:
        """Refuse an accepted PUBLISH; 3.1.1 has no reason code for that and acknowledges it as usual.

        The reason is added as text if the client wants it and the packet is not too large for the client
        [MQTT-3.4.2-2] [MQTT-3.5.2-2].
        """
        if publish.qos == 0:
            return
        outbox = self._sender.outbox
        head = PUBACK_HEAD if publish.qos == 1 else PUBREC_HEAD
        if outbox.version == 4:
            outbox.add_acknowledgement(head, publish.packet_id)
            return
        if reason and self.problem_information:
            explained: Properties = {props.REASON_STRING: reason}
            if publish.qos == 1:
                packet = Puback(publish.packet_id, reason_code, explained).encode(5)
            else:
                packet = Pubrec(publish.packet_id, reason_code, explained).encode(5)
            if outbox.fits(packet):
                outbox.add_packet(packet)
                return
        outbox.add_code(head, publish.packet_id, reason_code)

    def count_refused(self) -> None:
        """Count a refused PUBLISH, whether or not the client gets the reason."""
        self._sender.counters.begin_uncommon().publish_refused += 1

    def discard(self, publish: Publish) -> None:
        """Count a discarded PUBLISH, and tell of it (FC-35): it is acknowledged as usual and not routed."""
        self._sender.counters.begin_uncommon().publish_discarded += 1
        self._sender.counters.tell_lost("address_full", publish)

    def release(self, packet_id: int) -> None:
        """A PUBREL was received: send PUBCOMP, in MQTT 5 with 0x92 if the id is unknown (FC-21)."""
        known = self._ids is not None and self._ids.release(packet_id)
        if known and self.journal is not None:
            self._sender.outbox.wait_for(self.journal.forget(packet_id))
        if known:
            self._sender.outbox.add_acknowledgement(PUBCOMP_HEAD, packet_id)
        else:
            self._sender.outbox.add_unknown(PUBCOMP_HEAD, packet_id)

    def _remember(self, packet_id: int, now: int, here: bool) -> None:
        """The id of a routed QoS 2 PUBLISH waits for PUBREL; `here`: received on the current connection."""
        self._received_ids().remember(packet_id, now, here)
        if self.journal is not None:
            self._sender.outbox.wait_for(self.journal.remember(packet_id))
        timeout = self._sender.limits.await_rel_timeout
        if timeout:
            self._sender.arm(now + timeout)  # FC-22

    # -- parked PUBLISHes (FC-25)

    def park(self, publish: Publish) -> None:
        """Withhold the acknowledgement of an accepted PUBLISH until its address has room."""
        self._sender.counters.begin_uncommon().publish_parked += 1
        if publish.qos:
            self._received_ids().park(publish.qos, publish.packet_id)

    def expects(self, publish: Publish, connection: int) -> bool:
        """Whether a parked PUBLISH, first received on `connection`, was sent or resent on the current connection.

        If not, it is not acknowledged, and the client may resend it.
        """
        if not self._sender.connected:
            return False
        current = connection == self.connection
        return self._ids.is_here(publish.qos, publish.packet_id, current) if self._ids is not None else current

    def unpark(self, publish: Publish, connection: int, waited: int, now: int) -> bool:
        """End the wait of `waited` microseconds; returns what `expects` does. Call `answer_late` or `refuse` next."""
        expected = self.expects(publish, connection)
        self._sender.counters.begin_uncommon().publish_parked_us += waited
        ids = self._ids
        if ids is None:
            return expected
        if publish.qos:
            ids.unpark(publish.qos, publish.packet_id, connection == self.connection)
        if ids.may_take_parked():
            self._sender.arm(now)  # FC-22: if it is refused, its id is free for another, which `on_timer` lets in
        return expected

    def answer_late(self, publish: Publish, matched: bool, expected: bool, now: int) -> None:
        """Acknowledge a PUBLISH that was parked, if `expected`; if not, remember its QoS 2 id (FC-21)."""
        if expected and publish.qos:
            self.answer(publish, matched, now)
            self._sender.host.wake()
        elif publish.qos == 2:
            self._remember(publish.packet_id, now, False)

    # -- time

    def on_timer(self, now: int) -> None:
        """Forget packet ids whose PUBREL is overdue (FC-22), and let in PUBLISHes that wait for an id."""
        ids = self._ids
        if ids is None:
            return
        ids.forget_overdue(now, self._sender.counters)  # the journal keeps them (FC-22a)
        if ids.may_take_parked():
            self._sender.host.route_parked(now)

    def deadline(self) -> int:
        """When `on_timer` is due, in microseconds; 0 = never."""
        return self._ids.deadline() if self._ids is not None else 0

    def _received_ids(self) -> ReceivedIds:
        ids = self._ids
        if ids is None:
            ids = self._ids = ReceivedIds(self._sender.limits)
        return ids
