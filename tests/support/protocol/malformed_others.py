"""Malformed PINGREQ, DISCONNECT and AUTH packets, and fixed headers."""

from typing import Final

from .malformed_case import MALFORMED_PACKET, MQTT_NAME, PROTOCOL_ERROR, Malformed, each, packet

OTHERS: Final = [
    *each("PINGREQ flags not 0 [MQTT-2.1.3-1] [3.1.1: MQTT-2.2.2-2]", "c1", "", "", MALFORMED_PACKET),
    *each("PINGREQ with a byte", "c0", "00", "00", MALFORMED_PACKET),
    *each("DISCONNECT flags not 0 [MQTT-3.14.1-1]", "e4", "", "", MALFORMED_PACKET),
    packet("DISCONNECT with reason code, 3.1.1", 4, "e0", "00", MALFORMED_PACKET),
    packet("DISCONNECT unknown reason code [MQTT-3.14.2-1]", 5, "e0", "03", PROTOCOL_ERROR),
    packet("DISCONNECT reason code of CONNACK [MQTT-3.14.2-1]", 5, "e0", "86", PROTOCOL_ERROR),
    packet("DISCONNECT Reason String twice", 5, "e0", "00 08 1f000161 1f000161", PROTOCOL_ERROR),
    packet("DISCONNECT with a property of CONNECT", 5, "e0", "00 03 210001", MALFORMED_PACKET),
    packet("DISCONNECT with bytes left over", 5, "e0", "00 00 00", MALFORMED_PACKET),
    packet("AUTH flags not 0 [MQTT-3.15.1-1]", 5, "f1", "00 00", MALFORMED_PACKET),
    packet("AUTH unknown reason code [MQTT-3.15.2-1]", 5, "f0", "01 04 15000161", PROTOCOL_ERROR),
    packet("AUTH without Authentication Method", 5, "f0", "18 00", PROTOCOL_ERROR),
    packet("AUTH Authentication Method twice", 5, "f0", "18 08 15000161 15000161", PROTOCOL_ERROR),
    packet("AUTH without property length", 5, "f0", "18", MALFORMED_PACKET),
    packet("AUTH in 3.1.1", 4, "f0", "", MALFORMED_PACKET),
    *each("packet type 0", "00", "", "", MALFORMED_PACKET),
    Malformed("Remaining Length of five bytes, 3.1.1", 4, "30ffffffff01", MALFORMED_PACKET),
    Malformed("Remaining Length of five bytes, 5.0", 5, "30ffffffff01", MALFORMED_PACKET),
    Malformed("Remaining Length too long encoded, PINGREQ [MQTT-1.5.5-1]", 5, "c08000", MALFORMED_PACKET),
    Malformed(
        "Remaining Length too long encoded, PUBLISH [MQTT-1.5.5-1]",
        5,
        "30848000 0001 61 00".replace(" ", ""),
        MALFORMED_PACKET,
    ),
    *each(
        "CONNECT a second time [MQTT-3.1.0-2]",
        "10",
        f"{MQTT_NAME} 04 02 003c 0001 61",
        f"{MQTT_NAME} 05 02 003c 00 0001 61",
        PROTOCOL_ERROR,
    ),
]
