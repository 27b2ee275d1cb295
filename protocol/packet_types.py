"""MQTT control packet types: numbers, names and the flag bits each of them demands."""

from __future__ import annotations

from typing import Any, Final

from paho.mqtt import packettypes

CONNECT: Final = 1
CONNACK: Final = 2
PUBLISH: Final = 3
PUBACK: Final = 4
PUBREC: Final = 5
PUBREL: Final = 6
PUBCOMP: Final = 7
SUBSCRIBE: Final = 8
SUBACK: Final = 9
UNSUBSCRIBE: Final = 10
UNSUBACK: Final = 11
PINGREQ: Final = 12
PINGRESP: Final = 13
DISCONNECT: Final = 14
AUTH: Final = 15

# Not a packet type: the will inside CONNECT, in the table of allowed properties.
WILL: Final = 16

_SOURCE: Final[Any] = packettypes.PacketTypes

# Packet type -> its name as the standard writes it.
NAMES: Final[tuple[str, ...]] = (*(str(name).upper() for name in _SOURCE.Names), "CONNECT will")

# Packet type -> the low four bits that its first byte must have [MQTT-2.1.3-1] (3.1.1: [MQTT-2.2.2-1]).
# -1 for PUBLISH, whose four bits are DUP, QoS and RETAIN.
FLAGS: Final[tuple[int, ...]] = tuple(
    -1 if number == PUBLISH else 2 if number in (PUBREL, SUBSCRIBE, UNSUBSCRIBE) else 0 for number in range(16)
)


def from_paho(number: int) -> int:
    """Translate a packet number of paho's tables into ours (they differ for the will only)."""
    return WILL if number == int(_SOURCE.WILLMESSAGE) else number
