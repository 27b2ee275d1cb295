"""One client's session: who it is, what it is subscribed to, and both directions of its flow control."""

from typing import final

from protocol import packet_types, reason_codes
from protocol import properties as props
from protocol.acknowledgements import Puback, Pubrec
from protocol.properties import Properties
from protocol.publish import Publish
from protocol.subscribe import Subscription
from session.aliases import Aliases
from session.counters import Counters, Life
from session.host import Host
from session.inbound import DUPLICATE, IGNORE, NO_ROOM, Inbound
from session.limits import Limits
from session.outbound import Outbound
from session.outbox import PUBACK_HEAD, PUBCOMP_HEAD, PUBREC_HEAD, PUBREL_HEAD, Outbox
from session.stopwatch import Stopwatch


@final
class Session:
    """State that outlives a connection if the client wishes so [MQTT-3.1.2-23] (3.1.1: [MQTT-3.1.2-4])."""

    def __init__(self, client_id: str, limits: Limits, host: Host, now: int) -> None:
        self.client_id = client_id
        self.created_at = now
        self.limits = limits
        self.outbound = Outbound(limits, host, now)
        self.inbound = Inbound(limits)
        self.subscriptions: dict[str, Subscription] | None = None
        """By topic filter; None until the first."""
        self.version = 4
        self.listener = ""
        self.refused_until = 0
        """Until when a refused PUBLISH is nothing new."""
        self.reading_paused_time = Stopwatch()
        self._throttled_time: Stopwatch | None = None
        """None until the client has first been faster than `producer_max_rate` (FC-23)."""
        self._past: Life | None = None  # the intervals that are over

    # -- connecting

    def connect(
        self,
        host: Host,
        version: int,
        receive_maximum: int,
        maximum_packet_size: int,
        now: int,
        topic_alias_maximum: int = 0,
    ) -> None:
        """Attach a client; what has to be sent at once is in the outbox afterwards (FC-8).

        `receive_maximum`, `maximum_packet_size` and `topic_alias_maximum` are the client's, 0 where it stated none.
        """
        self.version = version
        self.inbound.connect()
        outbox = Outbox()
        outbox.version = version
        outbox.maximum_packet_size = maximum_packet_size
        aliases = min(topic_alias_maximum, self.limits.max_topic_alias_out)
        if aliases:
            outbox.aliases = Aliases(aliases)  # [MQTT-3.1.2-26, -27]
        self.outbound.connect(host, outbox, self.limits.window(receive_maximum), now)

    def disconnect(self, host: Host, now: int) -> None:
        """Detach the client; `host` stands in for it."""
        self.reading_paused_time.stop(now)
        self.throttle(False, now)
        self.inbound.disconnect()
        self.outbound.disconnect(host, now)

    # -- from the client

    def accept(self, publish: Publish) -> bool:
        """Count a received PUBLISH and decide whether it is to be routed (FC-20 to FC-22).

        Follow it with `answer`, `refuse` or `park`, if it is to be routed. One that waits for a packet id (FC-22) comes
        back from `let_in`. Raises MQTTError when the connection must be closed.
        """
        counters = self.outbound.counters
        if publish.qos == 1:
            if self.inbound.accept_qos1(publish.packet_id, self.version, counters) == IGNORE:
                return False
        elif publish.qos == 2:
            verdict = self.inbound.accept_qos2(publish.packet_id, self.version, counters)
            if verdict == DUPLICATE:
                self.outbound.outbox.add_acknowledgement(PUBREC_HEAD, publish.packet_id)
                return False
            if verdict == NO_ROOM:
                self._wait(publish)
                return False
            if verdict == IGNORE:
                return False
        counters.count_received(publish.qos, publish.size)
        return True

    def _wait(self, publish: Publish) -> None:
        if self.inbound.wait(publish):
            self.outbound.host.report(
                "max_awaiting_rel_reached",
                f"{self.inbound.awaiting_rel_len} QoS 2 packet ids wait for PUBREL; session.max_awaiting_rel is "
                f"{self.limits.max_awaiting_rel}. What exceeds it is parked, up to session.producer_window_size, "
                f"{self.limits.producer_window_size} bytes",
            )

    def let_in(self) -> Publish | None:
        """The PUBLISH that has waited longest for a packet id, if one is free: it counts as accepted now (FC-22)."""
        publish = self.inbound.let_in()
        if publish is not None:
            self.outbound.counters.count_received(publish.qos, publish.size)
        return publish

    def let_in_soon(self, now: int) -> None:
        """A packet id may have come free while the client says nothing: have that looked at by `on_timer` (FC-22)."""
        if self.inbound.may_let_in():
            self.outbound.arm(now)

    def answer(self, publish: Publish, matched: bool, now: int) -> None:
        """Acknowledge a routed PUBLISH (FC-21). MQTT 5 clients are told when nobody was subscribed."""
        if publish.qos == 0:
            return
        if publish.qos == 2:
            self._remember(publish.packet_id, now)
        head = PUBACK_HEAD if publish.qos == 1 else PUBREC_HEAD
        if not matched and self.version == 5:
            self._add_code(head, publish.packet_id, reason_codes.NO_MATCHING_SUBSCRIBERS)
        else:
            self.outbound.outbox.add_acknowledgement(head, publish.packet_id)

    def refuse(self, publish: Publish, reason_code: int, reason: str = "") -> None:
        """Answer an accepted PUBLISH that is not routed; 3.1.1 has no word for it but the usual ones (FC-21)."""
        if publish.qos == 0:
            return
        if self.version == 5:
            self._add_refusal(publish, reason_code, reason)
        else:
            head = PUBACK_HEAD if publish.qos == 1 else PUBREC_HEAD
            self.outbound.outbox.add_acknowledgement(head, publish.packet_id)

    def _add_refusal(self, publish: Publish, reason_code: int, reason: str) -> None:
        """The reason goes along in words if the client wants that and takes so much [MQTT-3.4.2-2] [MQTT-3.5.2-2]."""
        outbox = self.outbound.outbox
        if reason and outbox.problem_information:
            explained: Properties = {props.REASON_STRING: reason}
            if publish.qos == 1:
                packet = Puback(publish.packet_id, reason_code, explained).encode(5)
            else:
                packet = Pubrec(publish.packet_id, reason_code, explained).encode(5)
            if outbox.takes(packet):
                outbox.add_control(packet)
                return
        self._add_code(PUBACK_HEAD if publish.qos == 1 else PUBREC_HEAD, publish.packet_id, reason_code)

    def throttle(self, on: bool, now: int) -> None:
        """FC-23: the client is not read because of its rate from now on, or no longer because of that."""
        time = self._throttled_time
        if time is None:
            if not on:
                return
            time = self._throttled_time = Stopwatch()
        time.run(on, now)

    def park(self, publish: Publish, paged: bool = False) -> None:
        """Withhold the answer of an accepted PUBLISH until its address has room (FC-25), or it is on disk (FC-26)."""
        counters = self.outbound.counters
        if paged:
            counters.publish_paged += 1
        else:
            counters.publish_parked += 1
        if publish.qos:
            self.inbound.park(publish.qos, publish.packet_id)

    def expects(self, publish: Publish, connection: int) -> bool:
        """Whether a parked PUBLISH has come on the connection that the client has now: first on that number, or again.

        If not, the client is not told what becomes of it, and sends it again if it cares.
        """
        return self.outbound.connected and self.inbound.is_here(publish.qos, publish.packet_id, connection)

    def unpark(self, publish: Publish, connection: int, waited: int) -> bool:
        """It has waited, in microseconds; returns what `expects` does. `answer`, `refuse` or `remember` comes next."""
        expected = self.expects(publish, connection)
        self.outbound.counters.publish_parked_us += waited
        if publish.qos:
            self.inbound.unpark(publish.qos, publish.packet_id, connection)
        return expected

    def remember(self, publish: Publish, now: int) -> None:
        """A PUBLISH has been routed whose client has gone meanwhile: QoS 2 is not to be routed again (FC-21)."""
        if publish.qos == 2:
            self._remember(publish.packet_id, now, False)

    def _remember(self, packet_id: int, now: int, here: bool = True) -> None:
        self.inbound.remember(packet_id, now, here)
        if self.limits.await_rel_timeout:
            self.outbound.arm(now + self.limits.await_rel_timeout)  # FC-22

    def release(self, packet_id: int) -> None:
        """A PUBREL came: it is always answered, with 0x92 in MQTT 5 if the id is unknown (FC-21)."""
        if self.inbound.release(packet_id) or self.version != 5:
            self.outbound.outbox.add_acknowledgement(PUBCOMP_HEAD, packet_id)
        else:
            self._add_code(PUBCOMP_HEAD, packet_id, reason_codes.PACKET_IDENTIFIER_NOT_FOUND)

    def acknowledge(self, packet_type: int, packet_id: int, reason_code: int, now: int) -> None:
        """A PUBACK, PUBREC or PUBCOMP came. An unknown PUBREC is answered: its sender can let go of it (FC-21)."""
        known = self.outbound.acknowledge(packet_type, packet_id, reason_code >= 0x80, now)
        if known or packet_type != packet_types.PUBREC or reason_code >= 0x80:
            return
        if self.version == 5:
            self._add_code(PUBREL_HEAD, packet_id, reason_codes.PACKET_IDENTIFIER_NOT_FOUND)
        else:
            self.outbound.outbox.add_acknowledgement(PUBREL_HEAD, packet_id)

    def _add_code(self, head: bytes, packet_id: int, reason_code: int) -> None:
        """An acknowledgement of MQTT 5 that says something else than success, in five bytes."""
        self.outbound.outbox.add_control(bytes([head[0], 3, packet_id >> 8, packet_id & 255, reason_code]))

    # -- time

    def on_timer(self, now: int) -> None:
        """Resend and forget what is due (FC-8, FC-22). The caller writes the outbox afterwards if a client is there."""
        outbound = self.outbound
        if not outbound.timer_at or now < outbound.timer_at:
            return  # the session is over, or an earlier call has replaced this one
        outbound.timer_at = 0
        self.inbound.forget_overdue(now, outbound.counters)
        if self.inbound.may_let_in():
            outbound.host.let_in(now)
        again = outbound.on_timer(now)
        forget_at = self.inbound.deadline()
        if again or forget_at:
            outbound.arm(min(again or forget_at, forget_at or again))

    # -- the books

    def active(self) -> bool:
        """Whether the interval has anything new to tell: what happened, waits in the mailbox, or holds."""
        outbound = self.outbound
        return (
            not outbound.counters.quiet()
            or outbound.mailbox_len() > 0
            or outbound.window.full_time.running
            or outbound.congested
        )

    def take_counters(self, now: int) -> Counters:
        """The counts of the interval that ends now; a new interval begins."""
        counters = self.outbound.take_counters(now)
        counters.reading_paused_us = self.reading_paused_time.take(now)
        counters.awaiting_rel_len = self.inbound.awaiting_rel_len
        if self._throttled_time is not None:
            counters.publish_throttled_us = self._throttled_time.take(now)
        if self._past is None:
            self._past = Life()
        self._past.add(counters)
        return counters

    def life(self, now: int) -> Life:
        """What has been counted since the session began; nothing is taken away."""
        life = Life()
        life.add(self.outbound.counters)
        life.window_full_us = self.outbound.window.full_time.so_far(now)
        life.paced_for_us = self.outbound.paced_for(now)
        if self._past is not None:
            life.include(self._past)
        return life
