"""Packet types: numbers and names against paho's, flags against the standard's table 2-2."""

from typing import Any

from paho.mqtt import packettypes

from protocol import packet_types

SOURCE: Any = packettypes.PacketTypes


def test_numbers_are_pahos() -> None:
    """Each packet type has the number and the name that paho has."""
    for number in SOURCE.indexes:
        name = packet_types.NAMES[number]
        assert name == SOURCE.Names[number].upper()
        assert getattr(packet_types, name) == number == getattr(SOURCE, name)
    assert packet_types.from_paho(SOURCE.WILLMESSAGE) == packet_types.WILL


def test_flags() -> None:
    """PUBREL, SUBSCRIBE and UNSUBSCRIBE have flags 2, PUBLISH its own, all others 0 [MQTT-2.1.3-1]."""
    assert packet_types.FLAGS == (0, 0, 0, -1, 0, 0, 2, 0, 2, 0, 2, 0, 0, 0, 0, 0)


def test_names_in_messages() -> None:
    """Messages have the standard's names of packet types."""
    assert packet_types.NAMES[packet_types.PUBCOMP] == "PUBCOMP"
