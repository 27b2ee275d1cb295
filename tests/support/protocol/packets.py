"""Packets as plain data to compare; decodes streams whole or in pieces."""

from collections.abc import Iterable
from typing import Any

from protocol.connect import Will
from protocol.decoder import Decoder
from protocol.errors import MQTTError
from protocol.packet import Packet
from protocol.subscribe import Subscription

Content = tuple[Any, ...]


def content(packet: Packet) -> Content:
    """Return everything a packet says, in a form that compares by value."""
    return (type(packet).__name__, *(plain(getattr(packet, field)) for field in packet.fields))


def plain(value: object) -> object:
    """Replace the objects inside packets by tuples, and no properties by None."""
    if isinstance(value, Will):
        return (value.topic, value.payload, value.qos, value.retain, plain(value.properties))
    if isinstance(value, Subscription):
        return (
            value.topic_filter,
            value.qos,
            value.no_local,
            value.retain_as_published,
            value.retain_handling,
        )
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        # Only the order inside one property means something.
        return sorted(value.items()) or None
    return value


def drain(decoder: Decoder) -> list[Packet]:
    """Return all packets that the decoder can make of what it has."""
    packets = []
    while (packet := decoder.next_packet()) is not None:
        packets.append(packet)
    return packets


def decode_pieces(
    pieces: Iterable[bytes], version: int, maximum_packet_size: int = 0
) -> tuple[list[Content], int | None]:
    """Feed piece by piece; returns the packets' contents and the reason code of the error that ended it."""
    decoder = Decoder(maximum_packet_size, version=version)
    contents = []
    try:
        for piece in pieces:
            decoder.feed(piece)
            while (packet := decoder.next_packet()) is not None:
                contents.append(content(packet))
    except MQTTError as error:
        return contents, error.reason_code
    return contents, None


def decode_one(data: bytes, version: int) -> Packet:
    """Decode exactly one packet and nothing behind it."""
    decoder = Decoder(version=version)
    decoder.feed(data)
    packets = drain(decoder)
    assert len(packets) == 1
    assert decoder.buffered == 0
    return packets[0]
