"""Packet ids of SUBSCRIBE and UNSUBSCRIBE that the broker sends."""

from collections.abc import Container
from typing import Final

from session.session import Session

FAR: Final = 32_768
"""Half of all packet ids."""
_IDS: Final = 65_535


def free_packet_id(session: Session, taken: Container[int]) -> int:
    """A packet id that no delivery has, and none gets before the answer: those of deliveries are counted up.

    `taken`: those that wait for their answers.
    """
    packet_id = (session.sender.window.last_id + FAR) % _IDS + 1
    while packet_id in session.sender.window.entries or packet_id in taken:
        packet_id = packet_id % _IDS + 1
    return packet_id
