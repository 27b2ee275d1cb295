"""What a delivery costs in memory: one number for addresses (FC-24a) and for what is kept in memory (FC-30)."""

from typing import Final

from protocol.properties import Properties
from protocol.publish import Publish

OVERHEAD: Final = 700
"""Bytes of a delivery beside payload, topic and properties: those of one that is in the journal, which has most."""

PAIR: Final = 200
"""Bytes of the objects of a User Property; five are enough to send one."""


def cost(publish: Publish) -> int:
    """The bytes of a delivery, the same for all deliveries of a message."""
    return publish.size + around(publish.topic, publish.properties)


def around(topic: bytes, properties: Properties | None) -> int:
    """The bytes of a delivery beside its payload."""
    size = OVERHEAD + len(topic)
    return size if properties is None else size + bytes_in(properties)


def bytes_in(properties: Properties | None) -> int:
    """The bytes of memory that decoded properties take, about."""
    count = 0
    for value in (properties or {}).values():
        if isinstance(value, list):
            count += sum([PAIR + len(pair[0]) + len(pair[1]) for pair in value if isinstance(pair, tuple)])
        elif isinstance(value, str | bytes):
            count += len(value)
    return count
