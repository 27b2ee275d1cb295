"""Valid packets of a client, drawn from a small world: few clients, topics and packet ids, so that they meet.

Now and then one breaks a rule that the codec does not know, such as a topic alias that is too high.
"""

import random
from collections.abc import Callable
from typing import Any, Final

from protocol import properties as props
from protocol import reason_codes
from protocol.acknowledgements import Puback, Pubcomp, Pubrec, Pubrel
from protocol.auth import Auth
from protocol.connect import Connect, Will
from protocol.disconnect import Disconnect
from protocol.packet import Packet
from protocol.ping import Pingreq
from protocol.properties import Properties
from protocol.publish import Publish
from protocol.subscribe import Subscribe, Subscription
from protocol.unsubscribe import Unsubscribe
from tests.fuzz.users import CLIENT_FIRST, METHOD

CLIENT_IDS: Final = ("x", "y", "z", "")
TOPICS: Final = ("a", "a/b", "a/b/c", "b", "/", "$own/a", "denied/x", "a/" * 20)
FILTERS: Final = (*TOPICS, "#", "+", "a/#", "+/b", "a/+/c", "/#", "$SYS/#", "$own/+", "denied/#", "+/x")
SHARED: Final = ("$share/g/a", "$share/g/#", "$share/h/a/b", "$share/h/+/b", "$share/g/denied/x")
PAYLOADS: Final = (b"", b"p", b"\xff\x00", b"text", bytes(70), bytes(300))
PACKET_IDS: Final = (1, 1, 2, 2, 3, 4, 5, 65_535)


def connect(source: random.Random, version: int) -> Packet:
    """Any CONNECT that is well-formed."""
    will = None
    if source.random() < 0.3:
        will = Will(
            source.choice(TOPICS).encode(),
            source.choice(PAYLOADS),
            source.randrange(3),
            source.random() < 0.3,
            _some(source, version, WILL_PROPERTIES),
        )
    chosen = _some(source, version, CONNECT_PROPERTIES)
    if version == 5 and source.random() < 0.1:
        chosen = (chosen or {}) | {props.AUTHENTICATION_METHOD: METHOD, props.AUTHENTICATION_DATA: CLIENT_FIRST}
    return Connect(
        source.choice(CLIENT_IDS),
        source.random() < 0.5,
        source.choice((0, 0, 1, 60)),
        source.choice((None, None, "user")),
        None,
        will,
        chosen,
        version,
    )


def publish(source: random.Random, version: int) -> Packet:
    """A PUBLISH, in MQTT 5 perhaps with an alias in place of its topic."""
    qos = source.randrange(3)
    chosen = _some(source, version, PUBLISH_PROPERTIES)
    topic = source.choice(TOPICS).encode()
    if chosen is not None and props.TOPIC_ALIAS in chosen and source.random() < 0.5:
        topic = b""
    return Publish(
        topic,
        source.choice(PAYLOADS),
        qos,
        source.random() < 0.3,
        chosen,
        source.choice(PACKET_IDS) if qos else 0,
        qos > 0 and source.random() < 0.2,
    )


def acknowledgement(source: random.Random, version: int) -> Packet:
    """A PUBACK, PUBREC, PUBREL or PUBCOMP, for something or nothing."""
    kind = source.choice((Puback, Pubrec, Pubrel, Pubcomp))
    code = 0
    if version == 5 and source.random() < 0.3:
        code = source.choice([code for code in range(256) if reason_codes.is_allowed(code, kind.packet_type)])
    return kind(source.choice(PACKET_IDS), code, _some(source, version, REASONS))


def subscribe(source: random.Random, version: int) -> Packet:
    """A SUBSCRIBE to one filter or a few, with any options."""
    subscriptions = []
    for _ in range(source.choice((1, 1, 2, 4))):
        shared = source.random() < 0.3
        topic_filter = source.choice(SHARED if shared else FILTERS)
        if version == 5:
            options = (not shared and source.random() < 0.3, source.random() < 0.3, source.randrange(3))
            subscriptions.append(Subscription(topic_filter, source.randrange(3), *options))
        else:
            subscriptions.append(Subscription(topic_filter, source.randrange(3)))
    return Subscribe(source.choice(PACKET_IDS), subscriptions, _some(source, version, SUBSCRIBE_PROPERTIES))


def unsubscribe(source: random.Random, version: int) -> Packet:
    """An UNSUBSCRIBE."""
    count = source.choice((1, 1, 3))
    return Unsubscribe(source.choice(PACKET_IDS), [source.choice(FILTERS + SHARED) for _ in range(count)])


def pingreq(source: random.Random, version: int) -> Packet:
    """A PINGREQ."""
    return Pingreq()


def disconnect(source: random.Random, version: int) -> Packet:
    """A DISCONNECT, in MQTT 5 also with the will, or another expiry."""
    if version != 5:
        return Disconnect()
    return Disconnect(source.choice((0, 0, 4, 0x80)), _some(source, version, DISCONNECT_PROPERTIES))


def auth(source: random.Random, version: int) -> Packet:
    """An AUTH, of MQTT 5 whatever version is asked for."""
    data = source.choice((CLIENT_FIRST, b"c=biws,r=none,p=bm9uZQ==", b"", b"\xff"))
    method = METHOD if source.random() < 0.9 else "other"
    return Auth(
        source.choice((0x18, 0x19, 0)), {props.AUTHENTICATION_METHOD: method, props.AUTHENTICATION_DATA: data}
    )


KINDS: Final[dict[Callable[[random.Random, int], Packet], int]] = {
    connect: 2,
    publish: 10,
    acknowledgement: 5,
    subscribe: 6,
    unsubscribe: 2,
    pingreq: 1,
    disconnect: 1,
    auth: 1,
}
"""What draws a packet, and how often it is to."""


def any_packet(source: random.Random, version: int) -> bytes:
    """Return a packet of any kind that a client sends."""
    kind = source.choices(list(KINDS), list(KINDS.values()))[0]
    return kind(source, version).encode(5 if kind is auth else version)


def _some(source: random.Random, version: int, values: dict[int, tuple[Any, ...]]) -> Properties | None:
    """Draw a few of these properties."""
    if version != 5 or source.random() < 0.4:
        return None
    chosen = source.sample(list(values), source.randint(1, min(3, len(values))))
    return {identifier: source.choice(values[identifier]) for identifier in chosen}


USER_PROPERTIES: Final = ([("k", "v")], [("k", "v"), ("k", "w"), ("", "")])
REASONS: Final[dict[int, tuple[Any, ...]]] = {props.REASON_STRING: ("why",), props.USER_PROPERTY: USER_PROPERTIES}
MESSAGE_PROPERTIES: Final[dict[int, tuple[Any, ...]]] = {
    props.PAYLOAD_FORMAT_INDICATOR: (0, 1),
    props.MESSAGE_EXPIRY_INTERVAL: (0, 1, 20, 0xFFFFFFFF),
    props.CONTENT_TYPE: ("text/plain", ""),
    props.RESPONSE_TOPIC: ("b", "a/b"),
    props.CORRELATION_DATA: (b"", b"12"),
    props.USER_PROPERTY: USER_PROPERTIES,
}
PUBLISH_PROPERTIES: Final = MESSAGE_PROPERTIES | {
    props.TOPIC_ALIAS: (1, 1, 2, 10, 11),
    props.SUBSCRIPTION_IDENTIFIER: ([1],),
}
WILL_PROPERTIES: Final = MESSAGE_PROPERTIES | {props.WILL_DELAY_INTERVAL: (0, 1, 20, 0xFFFFFFFF)}
CONNECT_PROPERTIES: Final[dict[int, tuple[Any, ...]]] = {
    props.SESSION_EXPIRY_INTERVAL: (0, 1, 20, 0xFFFFFFFF),
    props.RECEIVE_MAXIMUM: (1, 2, 10),
    props.MAXIMUM_PACKET_SIZE: (1, 10, 20, 64, 300),
    props.TOPIC_ALIAS_MAXIMUM: (0, 1, 5, 65_535),
    props.REQUEST_PROBLEM_INFORMATION: (0, 1),
    props.REQUEST_RESPONSE_INFORMATION: (0, 1),
    props.USER_PROPERTY: USER_PROPERTIES,
}
SUBSCRIBE_PROPERTIES: Final[dict[int, tuple[Any, ...]]] = {
    props.SUBSCRIPTION_IDENTIFIER: (1, 2, 268_435_455),
    props.USER_PROPERTY: USER_PROPERTIES,
}
DISCONNECT_PROPERTIES: Final[dict[int, tuple[Any, ...]]] = {
    props.SESSION_EXPIRY_INTERVAL: (0, 10, 0xFFFFFFFF),
    props.REASON_STRING: ("bye",),
    props.SERVER_REFERENCE: ("elsewhere",),
}
