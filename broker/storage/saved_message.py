"""A message as it is read from the journal (FC-27)."""

from typing import NamedTuple


class Target(NamedTuple):
    """One delivery of a message."""

    session: int
    delivery: int
    qos: int
    retain: bool
    identifiers: bytes


class SavedMessage(NamedTuple):
    """A message as it is in the journal; `packet` is its PUBLISH in MQTT 5, with a placeholder as packet id."""

    number: int
    expires_at: int
    retained: bool
    publisher: str
    targets: list[Target]
    packet: bytes


class ScannedMessage(NamedTuple):
    """What has to be known of a message that stays on disk: `targets` are session, delivery and QoS."""

    number: int
    retained: bool
    targets: list[tuple[int, int, int]]
    size: int
    """Payload bytes."""
