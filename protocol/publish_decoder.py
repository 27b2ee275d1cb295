"""Decodes a received PUBLISH: the hottest function of the codec."""

from __future__ import annotations

from typing import Any

from protocol.errors import MalformedPacket, ProtocolError
from protocol.packet_types import PUBLISH
from protocol.primitives import read_packet_id
from protocol.properties import SUBSCRIPTION_IDENTIFIER, TOPIC_ALIAS, Properties, decode_properties
from protocol.publish import Publish
from protocol.publish_encoder import DUP, without_dup
from protocol.topics import validate_topic_name


def decode_publish(
    data: bytes,
    start: int,
    position: int,
    end: int,
    version: int,
    known_topics: dict[bytes, Any],
    last_topic: bytes,
) -> Publish:
    """Read the PUBLISH at data[start:end], whose variable header begins at `position`.

    `last_topic` and all in `known_topics` are valid topic names and are not checked again.
    """
    first = data[start]
    qos = first >> 1 & 3
    if first & 0x0E == 0x08 or qos == 3:
        raise _bad_flags(first)
    before_id = _topic_end(data, position, end)
    topic = data[position + 2 : before_id]
    position = before_id
    packet_id = 0
    if qos != 0:
        packet_id = read_packet_id(data, position, end, "PUBLISH packet identifier")
        position += 2
    shared_from = position if qos != 0 else start  # start of the bytes to pass on unchanged, -1 = none
    properties: Properties | None = None
    if version == 5:
        if position < end and data[position] == 0:
            position += 1
        else:
            properties, position = decode_properties(data, position, end, PUBLISH)
            if properties is not None and (TOPIC_ALIAS in properties or SUBSCRIPTION_IDENTIFIER in properties):
                shared_from = -1
    if topic == last_topic:
        topic = last_topic  # one shared object: its hash is cached, and queues need less memory
    elif topic not in known_topics:
        _check_topic(topic, version, properties)
    if shared_from < 0:
        wire = data[position:end]
    elif end - shared_from == len(data):
        wire = data  # a packet joined from two chunks is a separate object already: no copy needed
    else:
        wire = data[shared_from:end]
    publish = Publish(topic, wire, qos, first & 1 == 1, properties, packet_id, first & DUP != 0)
    publish.size = end - position
    if shared_from >= 0:
        _share(publish, version, wire if qos == 0 else data[start:before_id], wire)
    return publish


def _share(publish: Publish, version: int, frame: bytes, rest: bytes) -> None:
    """Use the received bytes as the outgoing frames."""
    if publish.dup:
        frame = without_dup(frame)
    if version == 5:
        publish.frame5 = frame
        if publish.qos != 0:
            publish.rest5 = rest
    else:
        publish.frame4 = frame
        if publish.qos != 0:
            publish.rest4 = rest


def _topic_end(data: bytes, position: int, end: int) -> int:
    start = position + 2
    if start > end:
        raise _cut_off("topic name length", 2, end - position)
    stop = start + (data[position] << 8 | data[position + 1])
    if stop > end:
        raise _cut_off("topic name", stop - start, end - start)
    return stop


def _check_topic(topic: bytes, version: int, properties: Properties | None) -> None:
    if topic == b"" and version == 5:
        if properties is None or TOPIC_ALIAS not in properties:  # section 3.3.2.1
            raise ProtocolError("PUBLISH topic name: is empty, and no Topic Alias stands for it")
        return  # whether the alias is known is checked later
    validate_topic_name(topic)


def _bad_flags(first: int) -> MalformedPacket:
    if first & 0x06 == 0x06:  # [MQTT-3.3.1-4]
        return MalformedPacket("PUBLISH flags: QoS is 3, but must be 0, 1 or 2")
    return MalformedPacket("PUBLISH flags: DUP is set at QoS 0")  # [MQTT-3.3.1-2]


def _cut_off(what: str, needed: int, left: int) -> MalformedPacket:
    return MalformedPacket(f"PUBLISH {what}: needs {needed} bytes, but only {left} are left in the packet")
