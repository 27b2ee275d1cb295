"""Messages that differ by a text, and the texts of the messages that were received."""

from collections.abc import Iterable
from typing import Final

from protocol.acknowledgements import Pubrel
from protocol.packet import Packet
from protocol.properties import MESSAGE_EXPIRY_INTERVAL, Properties
from protocol.publish import Publish

SECOND: Final = 1_000_000
"""Microseconds."""

_PADDING: Final = b"."


def message(
    text: object, qos: int = 0, topic: str = "t", *, size: int = 0, expiry: int = 0, now: int = 0, retain: bool = False
) -> Publish:
    """A message as the router hands it over at `now`: `text` padded to `size` bytes, `expiry` in seconds (0 = none)."""
    payload = str(text).encode().ljust(size, _PADDING)
    properties: Properties | None = {MESSAGE_EXPIRY_INTERVAL: expiry} if expiry else None
    publish = Publish(topic.encode(), payload, qos, retain, properties)
    publish.received_at = now
    if expiry:
        publish.expires_at = now + expiry * SECOND
    return publish


def text_of(publish: Publish) -> str:
    """The text that `message` was given."""
    return publish.payload.rstrip(_PADDING).decode()


def publishes(packets: Iterable[Packet]) -> list[Publish]:
    """The PUBLISHes among `packets`."""
    return [packet for packet in packets if isinstance(packet, Publish)]


def texts(packets: Iterable[Packet]) -> list[str]:
    """The texts of the PUBLISHes among `packets`, in order."""
    return [text_of(publish) for publish in publishes(packets)]


def resent(packets: Iterable[Packet]) -> list[tuple[str, int, str]]:
    """The PUBLISHes and PUBRELs among `packets`, in order: `dup` or `new` or `rel`, packet id, text."""
    found: list[tuple[str, int, str]] = []
    for packet in packets:
        if isinstance(packet, Publish):
            found.append(("dup" if packet.dup else "new", packet.packet_id, text_of(packet)))
        elif isinstance(packet, Pubrel):
            found.append(("rel", packet.packet_id, ""))
    return found
