"""SUBSCRIBE and UNSUBSCRIBE."""

from typing import Final, final

from broker.auth.topic_rules import TopicRules
from broker.clients import Client
from broker.connection.capabilities import Capabilities
from broker.connection.log import log_subscribed, log_unsubscribed
from broker.connection.replies import shortened
from broker.events import Events
from broker.routing.retained import Retained
from broker.routing.retained_feed import RetainedFeed
from broker.routing.router import Router
from broker.routing.shared_groups import split_share
from broker.settings import Settings
from protocol import properties as props
from protocol import reason_codes
from protocol.errors import PacketTooLarge
from protocol.publish_encoder import encode_identifiers
from protocol.suback import Suback
from protocol.subscribe import Subscribe, Subscription
from protocol.unsuback import Unsuback
from protocol.unsubscribe import Unsubscribe
from session.session import Session

_NAMED: Final = 3
"""Refused filters that a SUBACK names, at most."""


@final
class Subscribing:
    """Handles SUBSCRIBE and UNSUBSCRIBE of all connections."""

    def __init__(
        self,
        settings: Settings,
        router: Router,
        retained: Retained,
        capabilities: Capabilities,
        topic_rules: TopicRules,
        events: Events,
    ) -> None:
        self._max_topic_levels: int = settings.max_topic_levels
        self._router = router
        self._retained = retained
        self._capabilities = capabilities
        self._topic_rules = topic_rules
        self._events = events

    def subscribe(self, client: Client, packet: Subscribe, now: int) -> None:
        """Subscribe filter by filter and answer with SUBACK; the retained messages follow."""
        session = client.session
        if session.version == 5:
            self._capabilities.check_subscribe(packet)
        codes: list[int] = []
        fresh: list[Subscription] = []
        refused: list[str] = []
        identifiers = _identifiers(packet)
        for subscription in packet.subscriptions:
            subscription.identifiers = identifiers
            if client.bridge:  # MQTT 5 bridges set these options themselves
                subscription.no_local = True
                subscription.retain_as_published = True
            refusal = self._refusal(subscription.topic_filter)
            if refusal:
                codes.append(refusal)  # SUBACK of 3.1.1 has 0x80 for all
                refused.append(subscription.topic_filter)
                continue
            if self._add(session, subscription):
                fresh.append(subscription)
            if client.kept is not None:
                session.outbox.commit = client.kept.subscribed(subscription)
            codes.append(subscription.qos)
        _suback(session, packet.packet_id, codes, refused)
        if self._events.debug:
            filters = [each.topic_filter for each in packet.subscriptions]
            log_subscribed(self._events, session.client_id, filters, codes)
        if fresh:
            feed = client.feed
            if feed is None:
                feed = RetainedFeed(self._router, self._retained, self._topic_rules, session)
            client.feed = feed if feed.add(fresh, now) else None

    def unsubscribe(self, client: Client, packet: Unsubscribe) -> None:
        """Unsubscribe filter by filter and answer with UNSUBACK [MQTT-3.10.4-4]."""
        session = client.session
        codes: list[int] = []
        for topic_filter in packet.topic_filters:
            held = session.subscriptions
            if held is not None and held.pop(topic_filter, None) is not None:
                self._router.unsubscribe(session.outbound, topic_filter)
                if client.kept is not None:
                    session.outbox.commit = client.kept.unsubscribed(topic_filter)
                if client.feed is not None:
                    client.feed.forget(topic_filter)
                codes.append(reason_codes.SUCCESS)
            else:
                codes.append(reason_codes.NO_SUBSCRIPTION_EXISTED)
        _answer(session, Unsuback(packet.packet_id, codes).encode(session.version))
        if self._events.debug:
            log_unsubscribed(self._events, session.client_id, packet.topic_filters, codes)

    def _refusal(self, topic_filter: str) -> int:
        """The reason code that refuses a subscription; 0 = it is accepted."""
        inner = split_share(topic_filter)[1]  # topics are matched without $share/group
        if inner.count(b"/") >= self._max_topic_levels:
            return reason_codes.TOPIC_FILTER_INVALID
        if not self._topic_rules.may_subscribe(inner):
            return self._topic_rules.refused_subscribe
        return self._capabilities.lacks(topic_filter)

    def _add(self, session: Session, subscription: Subscription) -> bool:
        """Subscribe; returns whether retained messages are to be sent [MQTT-3.3.1-9, -10, -11]."""
        held = session.subscriptions
        if held is None:
            held = session.subscriptions = {}
        existed = subscription.topic_filter in held
        held[subscription.topic_filter] = subscription
        self._router.subscribe(session.outbound, subscription)
        handling = subscription.retain_handling
        if split_share(subscription.topic_filter)[0]:
            if session.outbound.journal is not None:
                self._router.shared.keep(subscription.topic_filter)
            return False  # section 4.8.2: no retained messages
        return handling == 0 or (handling == 1 and not existed)


def _suback(session: Session, packet_id: int, codes: list[int], refused: list[str]) -> None:
    """Send SUBACK, with the `refused` filters in a Reason String if the client wants one and the packet fits."""
    if refused and session.version == 5 and session.inbound.problem_information:
        named = ", ".join([repr(topic_filter[:100]) for topic_filter in refused[:_NAMED]])
        reason = shortened(f"not accepted: {named}{', ...' if len(refused) > _NAMED else ''}")
        packet = Suback(packet_id, codes, {props.REASON_STRING: reason}).encode(5)
        if session.reply(packet):  # [MQTT-3.9.2-1]
            return
    _answer(session, Suback(packet_id, codes).encode(session.version))


def _answer(session: Session, packet: bytes) -> None:
    if not session.reply(packet):  # [MQTT-3.1.2-24]; the client would wait for it for ever
        raise PacketTooLarge(f"an answer of {len(packet)} bytes, more than the client's Maximum Packet Size")


def _identifiers(packet: Subscribe) -> bytes:
    """The Subscription Identifier as encoded in PUBLISH [MQTT-3.3.4-3]; empty = none."""
    if packet.properties is None:
        return b""
    identifier = packet.properties.get(props.SUBSCRIPTION_IDENTIFIER)
    return encode_identifiers([identifier]) if isinstance(identifier, int) else b""
