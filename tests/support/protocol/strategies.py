"""Hypothesis strategies: any packet that either version of MQTT allows."""

from typing import Any, Final

from hypothesis import strategies as st

from protocol import packet_types, properties, reason_codes
from protocol.acknowledgements import Puback, Pubcomp, Pubrec, Pubrel
from protocol.auth import Auth
from protocol.connack import Connack
from protocol.connect import Connect, Will
from protocol.disconnect import Disconnect
from protocol.packet import Packet
from protocol.ping import Pingreq, Pingresp
from protocol.properties import Properties
from protocol.publish import Publish
from protocol.suback import Suback
from protocol.subscribe import Subscribe, Subscription
from protocol.unsuback import Unsuback
from protocol.unsubscribe import Unsubscribe

texts: Final = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=40)
levels: Final = st.text(st.characters(exclude_characters="\0+#/$", exclude_categories=["Cs"]), max_size=8)
topics: Final = st.lists(levels, min_size=1, max_size=4).map("/".join).filter(bool)
topic_bytes: Final = topics.map(str.encode)
payloads: Final = st.one_of(st.binary(max_size=40), st.binary(min_size=100, max_size=300))
packet_ids: Final = st.integers(1, 65_535)
qos_levels: Final = st.integers(0, 2)


@st.composite
def topic_filters(draw: st.DrawFn) -> str:
    """Any valid filter that is no shared subscription."""
    parts = draw(st.lists(st.one_of(levels, st.just("+")), max_size=4))
    if draw(st.booleans()):
        parts.append("#")
    return "/".join(parts) or "a"


def _value(identifier: int, packet_type: int) -> st.SearchStrategy[Any]:
    kind = properties.TYPES[identifier]
    if identifier == properties.RESPONSE_TOPIC:
        return topics
    if identifier == properties.SUBSCRIPTION_IDENTIFIER:
        number = st.integers(1, 268_435_455)
        return st.lists(number, min_size=1, max_size=3) if packet_type == packet_types.PUBLISH else number
    if kind == properties.UTF8_STRING_PAIR:
        return st.lists(st.tuples(texts, texts), min_size=1, max_size=3)
    least = 1 if identifier in (33, 35, 39) else 0  # Receive Maximum, Topic Alias, Maximum Packet Size
    return {
        properties.BYTE: st.integers(0, 1),
        properties.TWO_BYTE_INTEGER: st.integers(least, 65_535),
        properties.FOUR_BYTE_INTEGER: st.integers(least, 4_294_967_295),
        properties.BINARY_DATA: st.binary(max_size=20),
        properties.UTF8_STRING: texts,
    }[kind]


def property_sets(packet_type: int) -> st.SearchStrategy[Properties]:
    """Any properties that a packet of this type may have, at least one."""
    allowed = [number for number in range(128) if properties.is_allowed(number, packet_type)]
    sets: st.SearchStrategy[Properties] = st.fixed_dictionaries(
        {}, optional={number: _value(number, packet_type) for number in allowed}
    )
    return sets.map(_with_method).filter(bool)


def _with_method(chosen: Properties) -> Properties:
    if properties.AUTHENTICATION_DATA in chosen:
        chosen.setdefault(properties.AUTHENTICATION_METHOD, "method")
    return chosen


def maybe_properties(packet_type: int, version: int) -> st.SearchStrategy[Properties | None]:
    """None, or in MQTT 5 any properties."""
    return st.none() if version != 5 else st.one_of(st.none(), property_sets(packet_type))


def codes(packet_type: int, version: int = 5) -> st.SearchStrategy[int]:
    """Any reason code that a packet of this type may have."""
    if version != 5:
        return st.just(0)
    return st.sampled_from([code for code in range(256) if reason_codes.is_allowed(code, packet_type)])


def wills(version: int) -> st.SearchStrategy[Will]:
    """Any will."""
    return st.builds(
        Will, topic_bytes, payloads, qos_levels, st.booleans(), maybe_properties(packet_types.WILL, version)
    )


@st.composite
def connects(draw: st.DrawFn, version: int) -> Connect:
    """Any CONNECT."""
    username = draw(st.none() | texts)
    may_have_password = version == 5 or username is not None
    older = version == 4
    return Connect(
        draw(texts),
        draw(st.booleans()),
        draw(st.integers(0, 65_535)),
        username,
        draw(st.none() | st.binary(max_size=20)) if may_have_password else None,
        draw(st.none() | wills(version)),
        draw(maybe_properties(packet_types.CONNECT, version)),
        version,
        older and draw(st.booleans()),
        older and draw(st.booleans()),
    )


@st.composite
def connacks(draw: st.DrawFn, version: int) -> Connack:
    """Any CONNACK."""
    code = draw(codes(packet_types.CONNACK) if version == 5 else st.integers(0, 5))
    return Connack(code == 0 and draw(st.booleans()), code, draw(maybe_properties(packet_types.CONNACK, version)))


@st.composite
def publishes(draw: st.DrawFn, version: int) -> Publish:
    """Any PUBLISH, in MQTT 5 also one whose topic is only an alias."""
    qos = draw(qos_levels)
    chosen = draw(maybe_properties(packet_types.PUBLISH, version))
    topic = draw(topic_bytes)
    if chosen is not None and properties.TOPIC_ALIAS in chosen and draw(st.booleans()):
        topic = b""
    return Publish(
        topic,
        draw(payloads),
        qos,
        draw(st.booleans()),
        chosen,
        draw(packet_ids) if qos else 0,
        qos > 0 and draw(st.booleans()),
    )


def acknowledgements(version: int) -> st.SearchStrategy[Packet]:
    """Any PUBACK, PUBREC, PUBREL or PUBCOMP."""
    return st.one_of(
        [
            st.builds(
                kind,
                packet_ids,
                codes(kind.packet_type, version),
                maybe_properties(kind.packet_type, version),
            )
            for kind in (Puback, Pubrec, Pubrel, Pubcomp)
        ]
    )


@st.composite
def subscriptions(draw: st.DrawFn, version: int) -> Subscription:
    """Any subscription."""
    if version != 5:
        return Subscription(draw(topic_filters()), draw(qos_levels))
    shared = draw(st.booleans())
    topic_filter = draw(topic_filters())
    return Subscription(
        f"$share/group/{topic_filter}" if shared else topic_filter,
        draw(qos_levels),
        not shared and draw(st.booleans()),
        draw(st.booleans()),
        draw(st.integers(0, 2)),
    )


def subscribes(version: int) -> st.SearchStrategy[Subscribe]:
    """Any SUBSCRIBE."""
    return st.builds(
        Subscribe,
        packet_ids,
        st.lists(subscriptions(version), min_size=1, max_size=4),
        maybe_properties(packet_types.SUBSCRIBE, version),
    )


def subacks(version: int) -> st.SearchStrategy[Suback]:
    """Any SUBACK."""
    code = codes(packet_types.SUBACK) if version == 5 else st.sampled_from([0, 1, 2, 0x80])
    return st.builds(
        Suback,
        packet_ids,
        st.lists(code, min_size=1, max_size=5),
        maybe_properties(packet_types.SUBACK, version),
    )


def unsubscribes(version: int) -> st.SearchStrategy[Unsubscribe]:
    """Any UNSUBSCRIBE."""
    return st.builds(
        Unsubscribe,
        packet_ids,
        st.lists(topic_filters(), min_size=1, max_size=4),
        maybe_properties(packet_types.UNSUBSCRIBE, version),
    )


def unsubacks(version: int) -> st.SearchStrategy[Unsuback]:
    """Any UNSUBACK."""
    code = codes(packet_types.UNSUBACK)
    return st.builds(
        Unsuback,
        packet_ids,
        st.lists(code, min_size=1, max_size=5) if version == 5 else st.just([]),
        maybe_properties(packet_types.UNSUBACK, version),
    )


def disconnects(version: int) -> st.SearchStrategy[Disconnect]:
    """Any DISCONNECT."""
    return st.builds(
        Disconnect,
        codes(packet_types.DISCONNECT, version),
        maybe_properties(packet_types.DISCONNECT, version),
    )


@st.composite
def auths(draw: st.DrawFn) -> Auth:
    """Any AUTH."""
    chosen = draw(st.none() | property_sets(packet_types.AUTH))
    if chosen is None:
        return Auth()
    chosen.setdefault(properties.AUTHENTICATION_METHOD, "method")
    return Auth(draw(codes(packet_types.AUTH)), chosen)


def packets(version: int) -> st.SearchStrategy[Packet]:
    """Any packet but CONNECT."""
    kinds: list[st.SearchStrategy[Packet]] = [
        connacks(version),
        publishes(version),
        acknowledgements(version),
        subscribes(version),
        subacks(version),
        unsubscribes(version),
        unsubacks(version),
        st.builds(Pingreq),
        st.builds(Pingresp),
        disconnects(version),
    ]
    if version == 5:
        kinds.append(auths())
    return st.one_of(kinds)
