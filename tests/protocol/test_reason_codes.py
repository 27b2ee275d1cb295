"""Reason codes: our tables compared with paho's and the standard's."""

from typing import Any

import pytest
from paho.mqtt import reasoncodes

from protocol import packet_types, reason_codes

SOURCE: Any = reasoncodes


def test_names_are_pahos() -> None:
    """Each code has the name of paho's table, by packet where one code has several names."""
    for code, entries in SOURCE.ReasonCode.names.items():
        for text, packets in entries.items():
            for packet in packets:
                assert reason_codes.name(code, packet) == text
                assert reason_codes.is_allowed(code, packet)
    assert reason_codes.name(0, packet_types.DISCONNECT) == "Normal disconnection"
    assert reason_codes.name(0x95) == "Packet too large"
    assert reason_codes.name(0x7F) == "0x7F"


@pytest.mark.parametrize(
    ("packet_type", "codes"),
    [
        (packet_types.CONNACK, "00 80-8a 8c 90 95 97 99-9d 9f"),
        (packet_types.PUBACK, "00 10 80 83 87 90 91 97 99"),
        (packet_types.PUBREC, "00 10 80 83 87 90 91 97 99"),
        (packet_types.PUBREL, "00 92"),
        (packet_types.PUBCOMP, "00 92"),
        (packet_types.SUBACK, "00-02 80 83 87 8f 91 97 9e a1 a2"),
        (packet_types.UNSUBACK, "00 11 80 83 87 8f 91"),
        (packet_types.DISCONNECT, "00 04 80-83 87 89 8b-90 93-a2"),
        (packet_types.AUTH, "00 18 19"),
        (packet_types.PUBLISH, ""),
    ],
)
def test_allowed_codes(packet_type: int, codes: str) -> None:
    """Each packet allows the codes of table 2-6 of the standard and no other."""
    expected: set[int] = set()
    for part in codes.split():
        first, _, last = part.partition("-")
        expected.update(range(int(first, 16), int(last or first, 16) + 1))
    assert {code for code in range(256) if reason_codes.is_allowed(code, packet_type)} == expected
    assert not reason_codes.is_allowed(256, packet_type)
    assert not reason_codes.is_allowed(-1, packet_type)
