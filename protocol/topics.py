"""Topic names and topic filters (section 4.7): validation, the reference matcher, shared subscriptions."""

from __future__ import annotations

from typing import Final

from protocol.errors import MalformedPacket, ProtocolError
from protocol.primitives import decode_utf8

SHARE_PREFIX: Final = "$share/"


def validate_topic_name(topic: bytes, where: str = "PUBLISH topic name") -> None:
    """Check a topic name as received.

    Raises ProtocolError for an empty name (section 3.3.2.1 of MQTT 5), MalformedPacket for wildcards and bad UTF-8.
    """
    text = decode_utf8(topic, where)  # [MQTT-3.3.2-1]
    if text == "":  # [MQTT-4.7.3-1]
        raise ProtocolError(f"{where}: is empty, but must have at least one character")
    if "+" in text or "#" in text:  # [MQTT-3.3.2-2] [MQTT-4.7.0-1] (3.1.1: [MQTT-4.7.1-1])
        raise MalformedPacket(f"{where}: {text!r:.100} has a wildcard, which only topic filters may")


def validate_topic_filter(topic_filter: str | bytes, where: str = "topic filter") -> None:
    """Check a topic filter; raises MalformedPacket."""
    text = topic_filter if isinstance(topic_filter, str) else decode_utf8(topic_filter, where)
    if text == "":  # [MQTT-4.7.3-1]
        raise MalformedPacket(f"{where}: is empty, but must have at least one character")
    multi_level = text.find("#")
    if multi_level >= 0:  # [MQTT-4.7.1-1] (3.1.1: [MQTT-4.7.1-2])
        if multi_level != len(text) - 1:
            raise MalformedPacket(f"{where}: in {text!r:.100} '#' must be the last character")
        if multi_level > 0 and text[multi_level - 1] != "/":
            raise MalformedPacket(f"{where}: in {text!r:.100} '#' must be a level of its own")
    if "+" in text:  # [MQTT-4.7.1-2] (3.1.1: [MQTT-4.7.1-3])
        for level in text.split("/"):
            if "+" in level and level != "+":
                raise MalformedPacket(f"{where}: in {text!r:.100} '+' must be a level of its own")


def parse_share(topic_filter: str) -> tuple[str, str] | None:
    """Split "$share/group/filter" into (group, filter); None if it is no shared subscription.

    Raises MalformedPacket if it begins with $share/ and is not well-formed.
    """
    if not topic_filter.startswith(SHARE_PREFIX):
        return None
    group, separator, inner = topic_filter[len(SHARE_PREFIX) :].partition("/")
    if group == "":  # [MQTT-4.8.2-1]
        raise MalformedPacket(f"topic filter: {topic_filter!r:.100} has no share name behind $share/")
    if "+" in group or "#" in group:  # [MQTT-4.8.2-2]
        raise MalformedPacket(f"topic filter: the share name of {topic_filter!r:.100} must have no wildcard")
    if separator == "" or inner == "":  # [MQTT-4.8.2-2]
        raise MalformedPacket(f"topic filter: {topic_filter!r:.100} has no filter behind its share name")
    validate_topic_filter(inner)
    return group, inner


def split_share(topic_filter: str) -> tuple[str, bytes]:
    """The share name (empty = not shared) and the filter that is matched with topics.

    A malformed shared filter comes only from 3.1.1 clients; it is an ordinary filter there.
    """
    try:
        shared = parse_share(topic_filter)
    except MalformedPacket:
        shared = None
    if shared is None:
        return "", topic_filter.encode()
    return shared[0], shared[1].encode()


def matches(topic_filter: str, topic: str) -> bool:
    """Tell whether a valid filter matches a valid topic name: simple and slow, the reference for faster ones."""
    if topic[:1] == "$" and topic_filter[:1] in ("+", "#"):  # [MQTT-4.7.2-1]
        return False
    levels = topic.split("/")
    for index, wanted in enumerate(topic_filter.split("/")):
        if wanted == "#":
            return True  # also when no level is left: "sport/#" matches "sport"
        if index >= len(levels) or (wanted != "+" and wanted != levels[index]):
            return False
    return len(levels) == topic_filter.count("/") + 1
