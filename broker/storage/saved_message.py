"""A message as it is read from the journal (FC-27)."""

from typing import NamedTuple


class Target(NamedTuple):
    """One delivery of a message."""

    session: int
    delivery: int
    qos: int
    retain: bool
    identifiers: bytes
    group: int
    """The number of the group that the session has pulled it from (FC-13); 0 = none."""
    flow: int = 0
    """FC-33; 0 = it was not asked for."""


class SavedMessage(NamedTuple):
    """A message as it is in the journal; `publisher` and `properties` may be empty."""

    expires_at: int
    retained: bool
    publisher: str
    targets: list[Target]
    qos: int
    retain: bool
    topic: bytes
    properties: bytes
    payload: bytes


class ScannedMessage(NamedTuple):
    """What has to be known of a message that stays on disk; `targets` are session, delivery, QoS, group and flow."""

    retained: bool
    targets: list[tuple[int, int, int, int, int]]
    size: int
    """Payload bytes."""
    topic_at: int
    topic_end: int
    """Where its topic begins and ends."""
