"""Packets in words: no passwords, no user names that may be tokens, and payloads only if that is asked for."""

from typing import Final

from broker.auth.claimed_name import shown
from protocol import properties as props
from protocol import reason_codes
from protocol.acknowledgements import Puback, Pubcomp, Pubrec, Pubrel
from protocol.auth import Auth
from protocol.connack import Connack
from protocol.connect import Connect
from protocol.disconnect import Disconnect
from protocol.packet import Packet
from protocol.packet_types import NAMES
from protocol.properties import Properties
from protocol.publish import Publish
from protocol.replies import shortened
from protocol.suback import Suback
from protocol.subscribe import Subscribe
from protocol.unsuback import Unsuback
from protocol.unsubscribe import Unsubscribe

MOST_FILTERS: Final = 20
"""Topic filters of one packet that are shown."""

PAYLOAD_BYTES: Final = 64
"""The first bytes of a payload, if payloads are shown."""


def name(packet: Packet) -> str:
    """The packet's name in the standard."""
    return NAMES[packet.packet_type]


def in_words(packet: Packet, payload: bool, names_may_be_tokens: bool) -> str:
    """What the packet says, without its name and topic. `payload`: with the first bytes of payloads.

    `names_may_be_tokens`: clients send tokens as user names.
    """
    if isinstance(packet, Publish):
        return _publish(packet, payload)
    if isinstance(packet, Connect):
        return _connect(packet, names_may_be_tokens)
    if isinstance(packet, Connack):
        words = [_code(packet.reason_code, packet), "session present" if packet.session_present else ""]
    elif isinstance(packet, Puback | Pubrec | Pubrel | Pubcomp):
        words = [f"id {packet.packet_id}", _code(packet.reason_code, packet) if packet.reason_code else ""]
    elif isinstance(packet, Subscribe):
        filters = [f"{shortened(each.topic_filter)} QoS {each.qos}" for each in packet.subscriptions[:MOST_FILTERS]]
        words = [f"id {packet.packet_id}", *filters, _more(len(packet.subscriptions))]
    elif isinstance(packet, Unsubscribe):
        filters = [shortened(each) for each in packet.topic_filters[:MOST_FILTERS]]
        words = [f"id {packet.packet_id}", *filters, _more(len(packet.topic_filters))]
    elif isinstance(packet, Suback | Unsuback):
        codes = packet.reason_codes or []
        words = [f"id {packet.packet_id}", *(_code(each, packet) for each in codes[:MOST_FILTERS]), _more(len(codes))]
    elif isinstance(packet, Disconnect | Auth):
        words = [_code(packet.reason_code, packet)]
    else:
        words = []
    return ", ".join(word for word in [*words, _reason(getattr(packet, "properties", None))] if word)


def _publish(packet: Publish, payload: bool) -> str:
    words = [f"QoS {packet.qos}", f"id {packet.packet_id}" if packet.qos else "", f"{packet.size} bytes"]
    words += ["retain" if packet.retain else "", "DUP" if packet.dup else ""]
    if payload and packet.payload:
        first = packet.payload[:PAYLOAD_BYTES]
        words.append(f"payload {repr(bytes(first))[1:]}" + ("..." if packet.size > len(first) else ""))
    return ", ".join(word for word in words if word)


def _connect(packet: Connect, names_may_be_tokens: bool) -> str:
    words = [
        "MQTT 5.0" if packet.version == 5 else "MQTT 3.1" if packet.mqtt31 else "MQTT 3.1.1",
        f"client id {shortened(packet.client_id)!r}",
        "" if packet.username is None else f"user {shown(packet.username, names_may_be_tokens)}",
        "with a password" if packet.password is not None else "",
        "clean start" if packet.clean_start else "",
        f"keep-alive {packet.keep_alive} s",
    ]
    if packet.will is not None:
        words.append(f"will to {shortened(packet.will.topic.decode(errors='replace'))!r}")
    return ", ".join(word for word in words if word)


def _code(code: int, packet: Packet) -> str:
    if isinstance(packet, Suback) and code <= 2:
        return f"QoS {code}"
    return f"{reason_codes.name(code, packet.packet_type)} (0x{code:02X})"


def _more(count: int) -> str:
    return f"and {count - MOST_FILTERS} more" if count > MOST_FILTERS else ""


def _reason(properties: Properties | None) -> str:
    text = (properties or {}).get(props.REASON_STRING)
    return shortened(text) if isinstance(text, str) else ""
