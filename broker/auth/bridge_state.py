"""The topic in which a bridge to this broker says whether it is connected, as Mosquitto's bridges do."""

from typing import Final

STATE_PREFIX: Final = b"$SYS/broker/connection/"
STATE_SUFFIX: Final = b"/state"
"""Around the client id in the topic of a bridge's state."""


def state_topic(client_id: str) -> bytes:
    """The topic of a bridge's state."""
    return STATE_PREFIX + client_id.encode() + STATE_SUFFIX
