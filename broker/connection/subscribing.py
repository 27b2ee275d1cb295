"""SUBSCRIBE and UNSUBSCRIBE."""

from typing import TYPE_CHECKING, Final

from broker.connection.log import log_subscribed, log_unsubscribed
from broker.connection.replies import in_words
from broker.routing.retained_feed import RetainedFeed
from broker.routing.shared_groups import split_share
from protocol import properties as props
from protocol import reason_codes
from protocol.errors import PacketTooLarge
from protocol.publish_encoder import encode_identifiers
from protocol.suback import Suback
from protocol.subscribe import Subscribe, Subscription
from protocol.unsuback import Unsuback
from protocol.unsubscribe import Unsubscribe
from session.session import Session

if TYPE_CHECKING:
    from broker.broker import Broker
    from broker.sessions import Client

_NAMED: Final = 3
"""Refused filters that a SUBACK names."""


def subscribe(broker: "Broker", client: "Client", packet: Subscribe, now: int) -> None:
    """Subscribe filter by filter and answer with SUBACK; the retained messages follow."""
    session = client.session
    if session.version == 5:
        broker.capabilities.check_subscribe(packet)
    codes: list[int] = []
    fresh: list[Subscription] = []
    refused: list[str] = []
    identifiers = _identifiers(packet)
    for subscription in packet.subscriptions:
        subscription.identifiers = identifiers
        if client.bridge:  # what bridges by MQTT 5 ask for themselves
            subscription.no_local = True
            subscription.retain_as_published = True
        refusal = _refusal(broker, subscription.topic_filter)
        if refusal:
            codes.append(refusal)  # SUBACK of 3.1.1 says 0x80 of all
            refused.append(subscription.topic_filter)
            continue
        if _add(broker, session, subscription):
            fresh.append(subscription)
        codes.append(subscription.qos)
    _answer(session, _suback(session, packet.packet_id, codes, refused))
    if broker.debug:
        log_subscribed(broker, session.client_id, [each.topic_filter for each in packet.subscriptions], codes)
    if fresh:
        feed = RetainedFeed(broker, session) if client.feed is None else client.feed
        client.feed = feed if feed.add(fresh, now) else None


def _suback(session: Session, packet_id: int, codes: list[int], refused: list[str]) -> bytes:
    """The SUBACK, which names what is `refused` in words too if the client wants that and takes so much."""
    outbox = session.outbound.outbox
    if refused and session.version == 5 and outbox.problem_information:
        named = ", ".join([repr(topic_filter[:100]) for topic_filter in refused[:_NAMED]])
        reason = in_words(f"not accepted: {named}{', ...' if len(refused) > _NAMED else ''}")
        packet = Suback(packet_id, codes, {props.REASON_STRING: reason}).encode(5)
        if outbox.takes(packet):  # [MQTT-3.9.2-1]
            return packet
    return Suback(packet_id, codes).encode(session.version)


def unsubscribe(broker: "Broker", client: "Client", packet: Unsubscribe) -> None:
    """Unsubscribe filter by filter and answer with UNSUBACK [MQTT-3.10.4-4]."""
    session = client.session
    codes: list[int] = []
    for topic_filter in packet.topic_filters:
        held = session.subscriptions
        if held is not None and held.pop(topic_filter, None) is not None:
            broker.router.unsubscribe(session.outbound, topic_filter)
            if client.feed is not None:
                client.feed.forget(topic_filter)
            codes.append(reason_codes.SUCCESS)
        else:
            codes.append(reason_codes.NO_SUBSCRIPTION_EXISTED)
    _answer(session, Unsuback(packet.packet_id, codes).encode(session.version))
    if broker.debug:
        log_unsubscribed(broker, session.client_id, packet.topic_filters, codes)


def _answer(session: Session, packet: bytes) -> None:
    outbox = session.outbound.outbox
    if not outbox.takes(packet):  # [MQTT-3.1.2-24], and without an answer the client could not go on
        limit = outbox.maximum_packet_size
        raise PacketTooLarge(f"an answer of {len(packet)} bytes to a client that takes {limit} at most")
    outbox.add_control(packet)


def _identifiers(packet: Subscribe) -> bytes:
    """The Subscription Identifier as PUBLISH is going to have it [MQTT-3.3.4-3]; empty = none."""
    if packet.properties is None:
        return b""
    identifier = packet.properties.get(props.SUBSCRIPTION_IDENTIFIER)
    return encode_identifiers([identifier]) if isinstance(identifier, int) else b""


def _refusal(broker: "Broker", topic_filter: str) -> int:
    """The reason code that refuses a subscription; 0 = it is accepted."""
    inner = split_share(topic_filter)[1]  # $share/group is no part of what topics are matched with
    if inner.count(b"/") >= broker.max_topic_levels:
        return reason_codes.TOPIC_FILTER_INVALID
    if not broker.authorization.may_subscribe(inner):
        return broker.authorization.refused_subscribe
    return broker.capabilities.lacks(topic_filter)


def _add(broker: "Broker", session: Session, subscription: Subscription) -> bool:
    """Returns whether its retained messages are to be sent [MQTT-3.3.1-9, -10, -11]."""
    held = session.subscriptions
    if held is None:
        held = session.subscriptions = {}
    existed = subscription.topic_filter in held
    held[subscription.topic_filter] = subscription
    broker.router.subscribe(session.outbound, subscription)
    handling = subscription.retain_handling
    if split_share(subscription.topic_filter)[0]:
        return False  # section 4.8.2: no retained messages to those who share
    return handling == 0 or (handling == 1 and not existed)
