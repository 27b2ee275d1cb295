"""Packet identifiers as keys: they are found as numbers too."""

from session.limits import PACKET_IDS
from session.packet_ids import KEYS


def test_keys_equal_their_packet_ids() -> None:
    """A dictionary finds by its number what was stored by its key, for each packet identifier."""
    stored = {KEYS[packet_id]: packet_id for packet_id in range(1, PACKET_IDS + 1)}

    assert all(stored[packet_id] == packet_id for packet_id in range(1, PACKET_IDS + 1))
