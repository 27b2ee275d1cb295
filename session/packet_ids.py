"""Packet identifiers as keys of dictionaries."""

from typing import Any, Final

from session.limits import PACKET_IDS

KEYS: Final[list[Any]] = list(range(PACKET_IDS + 1))
"""Every packet identifier as one object, by its number. Compiled code would make an object of a machine integer at each
look into a dictionary, which then has to compare both by value. `Any`, or it would take the integer out again."""
