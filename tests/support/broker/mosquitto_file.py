"""Persistence files of Mosquitto, byte by byte: for what the one at hand does not write."""

import struct
from typing import Final

MAGIC: Final = b"\x00\xb5\x00mosquitto db"


def start(version: int = 6, *, ended: bool = True, padded: bool = True, id_size: int = 8) -> bytes:
    """The head and the first chunk; `padded`: as a 64-bit machine or ARM has it, not 32-bit x86."""
    body = struct.pack("<QBB", 9, ended, id_size) + bytes(6 if padded else 2)
    return MAGIC + struct.pack(">II", 0, version) + chunk(1, body)


def chunk(kind: int, body: bytes) -> bytes:
    """A chunk."""
    return struct.pack(">II", kind, len(body)) + body


def message(number: int, topic: bytes, payload: bytes, qos: int = 1, **more: int | bytes) -> bytes:
    """A message of the store: `retain`, `expires_at`, `publisher`, `properties` with their length."""
    publisher, properties = more.get("publisher", b"p"), more.get("properties", b"")
    assert isinstance(publisher, bytes)
    assert isinstance(properties, bytes)
    fixed = struct.pack("<Qq", number, more.get("expires_at", 0))
    lengths = (len(payload), 1, len(publisher), 3, len(topic), 1883, qos, more.get("retain", 0))
    return chunk(2, fixed + struct.pack(">IHHHHHBB", *lengths) + publisher + b"ann" + topic + payload + properties)


def client(name: bytes, user: bytes = b"", interval: int = 0xFFFFFFFF, expires_at: int = 0, **layout: int) -> bytes:
    """A kept session; `version`, `padding`, `port`."""
    fixed = struct.pack("<q", expires_at) + struct.pack(">IHH", interval, 0, len(name))
    if layout.get("version", 6) == 5:
        return chunk(6, fixed + name)
    fixed += struct.pack(">HH", layout.get("port", 1883), len(user)) + bytes(layout.get("padding", 4))
    return chunk(6, fixed + name + user)


def delivery(number: int, name: bytes, packet_id: int = 0, qos: int = 1, state: int = 11, **more: int) -> bytes:
    """A delivery: `flags`, `direction`."""
    lengths = (packet_id, len(name), qos, state, more.get("flags", 0), more.get("direction", 1))
    return chunk(3, struct.pack("<Q", number) + struct.pack(">HHBBBB", *lengths) + name)


def subscription(name: bytes, topic_filter: bytes, qos: int = 1, options: int = 0, identifier: int = 0) -> bytes:
    """A subscription."""
    return chunk(
        5, struct.pack(">IHHBB2x", identifier, len(name), len(topic_filter), qos, options) + name + topic_filter
    )


def retained(number: int) -> bytes:
    """A message is retained."""
    return chunk(4, struct.pack("<Q", number))
