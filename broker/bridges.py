"""Bridges of other brokers: what Mosquitto's expect of the broker that they connect to, as they are by default."""

from typing import Final

RECEIVE_MAXIMUM: Final = 20
"""Deliveries that a bridge by MQTT 3.1.1, which cannot say so, is taken to accept at once. It is what Mosquitto's say
by MQTT 5 (`max_inflight_messages`); what comes at QoS 2 past that they acknowledge and discard."""
STATE_BEFORE: Final = b"$SYS/broker/connection/"
STATE_BEHIND: Final = b"/state"


def is_own_state(client_id: str, topic: bytes, payload: bytes, retain: bool) -> bool:
    """Whether a message, or a will, is a client's word on its own connection, as bridges have it.

    It goes to `$SYS/broker/connection/CLIENT_ID/state`, is retained, and is 1 (connected) or 0 (not). A
    client that the broker has yet to name cannot know its topic.
    """
    if not client_id or not retain or (payload != b"1" and payload != b"0"):
        return False
    return topic == STATE_BEFORE + client_id.encode() + STATE_BEHIND
