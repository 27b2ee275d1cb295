"""SUBSCRIBE and UNSUBSCRIBE."""

from functools import partial
from typing import Final, final

from broker.auth.authorizer import Authorizer
from broker.clients import Client
from broker.connection.capabilities import Capabilities
from broker.connection.log import log_subscribed, log_unsubscribed
from broker.events import Events
from broker.quotas.quotas import Quotas
from broker.routing.retained import Retained
from broker.routing.retained_feed import RetainedFeed
from broker.routing.router import Router
from broker.routing.topic_rules import TopicRules
from broker.routing.waiting import recheck_waiting
from broker.runtime.clock import monotonic_us
from broker.runtime.endpoint import Endpoint
from broker.settings import Settings
from protocol import properties as props
from protocol import reason_codes
from protocol.errors import PacketTooLarge
from protocol.publish_encoder import encode_identifiers
from protocol.replies import shortened
from protocol.suback import Suback
from protocol.subscribe import Subscribe, Subscription
from protocol.topics import split_share
from protocol.unsuback import Unsuback
from protocol.unsubscribe import Unsubscribe
from session.session import Session

_NO_ANSWER: Final = "another cell has not answered in time: what it publishes might be missed (CL-1)"
_NAMED: Final = 3
"""Refused filters that a SUBACK names, at most."""


@final
class Subscribing:
    """Handles SUBSCRIBE and UNSUBSCRIBE of all connections."""

    def __init__(  # noqa: PLR0913, PLR0917 - one per part, made in one place
        self,
        settings: Settings,
        router: Router,
        retained: Retained,
        capabilities: Capabilities,
        topic_rules: TopicRules,
        events: Events,
        authorizer: Authorizer | None = None,
        quotas: Quotas | None = None,
    ) -> None:
        self._max_topic_levels: int = settings.max_topic_levels
        self._router = router
        self._retained = retained
        self._capabilities = capabilities
        self._topic_rules = topic_rules
        self.authorizer = authorizer
        self._quotas = quotas
        self._events = events

    def subscribe(self, client: Client, packet: Subscribe, now: int) -> None:
        """Subscribe filter by filter and answer with SUBACK; the retained messages follow."""
        session = client.session
        if session.version == 5:
            self._capabilities.check_subscribe(packet)
        identifiers = _identifiers(packet)
        for subscription in packet.subscriptions:
            subscription.identifiers = identifiers
            if client.bridge:  # MQTT 5 bridges set these options themselves
                subscription.no_local = True
                subscription.retain_as_published = True
        codes, fresh = self._add_all(client, packet.subscriptions, now)
        refused = [
            subscription.topic_filter
            for subscription, code in zip(packet.subscriptions, codes, strict=True)
            if code >= reason_codes.UNSPECIFIED_ERROR
        ]
        cells = self._router.cells
        filters = [each.topic_filter for each in packet.subscriptions]
        if cells is None or not cells.unknown(filters):
            self._feed(client, fresh, now)
            _suback(session, packet.packet_id, codes, refused)
        else:
            connection = client.connection
            assert connection is not None  # it has sent SUBSCRIBE
            self._show_retained(session, fresh, True)
            answer = partial(self._answer_late, client, connection, fresh, packet.packet_id, codes, refused)
            too_late = partial(self._close_late, session, connection, fresh)
            cells.when_known(filters, answer, too_late)
        if self._events.debug:
            log_subscribed(self._events, session.client_id, filters, codes)

    def _answer_late(
        self,
        client: Client,
        connection: Endpoint,
        fresh: list[Subscription],
        packet_id: int,
        codes: list[int],
        refused: list[str],
        newer: set[bytes],
    ) -> None:
        """CL-1: what is published anywhere after SUBACK arrives, so it had to wait for the other cells.

        `newer`: topics of retained messages that have come meanwhile.
        """
        self._show_retained(client.session, fresh, False)
        if client.connection is connection:
            held = client.session.subscriptions or {}
            fresh = [each for each in fresh if held.get(each.topic_filter) is each]
            self._feed(client, fresh, monotonic_us(), newer)
            _suback(client.session, packet_id, codes, refused)
            connection.wake()

    def _close_late(self, session: Session, connection: Endpoint, fresh: list[Subscription]) -> None:
        """CL-1: another cell has not answered in time."""
        self._show_retained(session, fresh, False)
        connection.close(reason_codes.SERVER_BUSY, _NO_ANSWER)

    def _show_retained(self, session: Session, fresh: list[Subscription], on: bool) -> None:
        """Until SUBACK messages keep RETAIN: they may be retained already, and on their way from another cell."""
        held = session.subscriptions or {}
        for each in fresh:
            if not each.retain_as_published and held.get(each.topic_filter) is each:
                self._router.subscribe(session.outbound, each.showing_retained() if on else each)

    def add(self, client: Client, subscriptions: list[Subscription], now: int) -> list[int]:
        """Subscribe a session; the retained messages follow. Returns the reason code of each subscription."""
        codes, fresh = self._add_all(client, subscriptions, now)
        self._feed(client, fresh, now)
        return codes

    def _add_all(
        self, client: Client, subscriptions: list[Subscription], now: int
    ) -> tuple[list[int], list[Subscription]]:
        """The reason code of each subscription, and those whose retained messages are to be sent."""
        session = client.session
        codes: list[int] = []
        fresh: list[Subscription] = []
        for subscription in subscriptions:
            refusal = self._refusal(client, subscription, now)
            if refusal:
                codes.append(refusal)  # SUBACK of 3.1.1 has 0x80 for all
                continue
            if self._add(session, subscription):
                fresh.append(subscription)
            if client.kept is not None:
                session.outbox.wait_for(client.kept.subscribed(subscription))
            codes.append(subscription.qos)
        return codes, fresh

    def _feed(self, client: Client, fresh: list[Subscription], now: int, newer: set[bytes] | None = None) -> None:
        """Begin to send the retained messages of these subscriptions, but for topics that have had a newer one."""
        if fresh:
            feed = client.feed
            if feed is None:
                feed = self.new_feed(client)
            client.feed = feed if feed.add(fresh, now, newer) else None

    def new_feed(self, client: Client) -> RetainedFeed:
        """What delivers retained messages to a client."""
        session, kept = client.session, client.kept
        return RetainedFeed(self._router, self._retained, self._topic_rules, session, self.authorizer, kept)

    def unsubscribe(self, client: Client, packet: Unsubscribe) -> None:
        """Unsubscribe filter by filter and answer with UNSUBACK [MQTT-3.10.4-4]."""
        session = client.session
        codes = [
            reason_codes.SUCCESS if self.end(client, topic_filter) else reason_codes.NO_SUBSCRIPTION_EXISTED
            for topic_filter in packet.topic_filters
        ]
        _answer(session, Unsuback(packet.packet_id, codes).encode(session.version))
        if self._events.debug:
            log_unsubscribed(self._events, session.client_id, packet.topic_filters, codes)

    def end(self, client: Client, topic_filter: str) -> bool:
        """End a subscription; False if there is none."""
        session = client.session
        held = session.subscriptions
        if held is None or held.pop(topic_filter, None) is None:
            return False
        self._router.unsubscribe(session.outbound, topic_filter)
        if client.kept is not None:
            session.outbox.wait_for(client.kept.unsubscribed(topic_filter))
        if client.feed is not None:
            client.feed.forget(topic_filter)
        return True

    def forget_topics(self) -> None:
        """Find the receivers of each topic anew."""
        self._router.forget_topics()

    def recheck(self, client: Client) -> list[str]:
        """End the shared subscriptions that the rules no longer allow; returns their filters.

        Others are narrowed by the router, which asks for each topic.
        """
        session = client.session
        ended: list[str] = []
        for topic_filter, subscription in list((session.subscriptions or {}).items()):
            share, inner = split_share(topic_filter)
            if share and not self._permits(session, share, inner, subscription.qos):
                self.end(client, topic_filter)
                ended.append(topic_filter)
        return ended

    def recheck_waiting(self, client: Client) -> None:
        """What waits for a client was routed when it had other rights, or nobody was denied its topics."""
        recheck_waiting(client.session, client.permissions, self._topic_rules)

    def _permits(self, session: Session, share: str, inner: bytes, qos: int) -> bool:
        """Whether the rules allow a subscription.

        A shared one has a queue for all members, so each of them must be allowed to receive all that may be in it.
        """
        authorizer = self.authorizer
        permissions = None if authorizer is None else authorizer.of(session.outbound)
        if authorizer is None or permissions is None:
            return True
        if share or not authorizer.narrow:
            return permissions.may_receive_all(inner, qos)
        return permissions.may_receive_some(inner, qos)

    def _refusal(self, client: Client, subscription: Subscription, now: int) -> int:
        """The reason code that refuses a subscription; 0 = it is accepted."""
        session = client.session
        topic_filter = subscription.topic_filter
        share, inner = split_share(topic_filter)  # topics are matched without $share/group
        if inner.count(b"/") >= self._max_topic_levels:
            return reason_codes.TOPIC_FILTER_INVALID
        if not self._topic_rules.may_subscribe(inner) or not self._permits(session, share, inner, subscription.qos):
            return self._topic_rules.refused_subscribe
        quotas = self._quotas
        if quotas is not None and not quotas.may_subscribe(client, topic_filter, inner.count(b"/") + 1, now):
            return reason_codes.QUOTA_EXCEEDED
        lacks = self._capabilities.lacks(topic_filter)
        if not lacks and client.kept is not None and not client.kept.may_subscribe(subscription):
            self._events.subscribe_refused(session, now)
            return reason_codes.QUOTA_EXCEEDED
        return lacks

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
