"""Malformed CONNECT packets."""

from typing import Final

from .malformed_case import (
    MALFORMED_PACKET,
    MQTT_NAME,
    PROTOCOL_ERROR,
    UNSUPPORTED_PROTOCOL_VERSION,
    Malformed,
    each,
    packet,
)

CONNECT: Final = [
    *(
        packet(name, version, "10", body, UNSUPPORTED_PROTOCOL_VERSION)
        for name, version, body in [
            ("CONNECT protocol name is not MQTT [MQTT-3.1.2-1]", 4, "0004 48545450 04 02 003c 0000"),
            ("CONNECT protocol name in small letters [MQTT-3.1.2-1]", 5, "0004 6d717474 05 02 003c 00 0000"),
            ("CONNECT protocol name is empty [MQTT-3.1.2-1]", 4, "0000 04 02 003c 0000"),
            ("CONNECT of MQTT 3.1 with level 4 [MQTT-3.1.2-1]", 4, "0006 4d5149736470 04 02 003c 0001 61"),
            ("CONNECT level 3 [MQTT-3.1.2-2]", 4, f"{MQTT_NAME} 03 02 003c 0000"),
            ("CONNECT level 0 [MQTT-3.1.2-2]", 4, f"{MQTT_NAME} 00 02 003c 0000"),
            ("CONNECT level 6 [MQTT-3.1.2-2]", 5, f"{MQTT_NAME} 06 02 003c 00 0000"),
            ("CONNECT level 255 [MQTT-3.1.2-2]", 5, f"{MQTT_NAME} ff 02 003c 00 0000"),
            ("CONNECT level of a 3.1 bridge [MQTT-3.1.2-2]", 4, f"{MQTT_NAME} 83 02 003c 0000"),
        ]
    ),
    *each(
        "CONNECT reserved flag bit 0 set [MQTT-3.1.2-3]",
        "10",
        f"{MQTT_NAME} 04 03 003c 0001 61",
        f"{MQTT_NAME} 05 03 003c 00 0001 61",
        MALFORMED_PACKET,
    ),
    *each(
        "CONNECT Will QoS 3 [MQTT-3.1.2-12] [3.1.1: MQTT-3.1.2-14]",
        "10",
        f"{MQTT_NAME} 04 1e 003c 0001 61 0001 74 0001 70",
        f"{MQTT_NAME} 05 1e 003c 00 0001 61 00 0001 74 0001 70",
        MALFORMED_PACKET,
    ),
    *each(
        "CONNECT Will QoS 1 without Will Flag [MQTT-3.1.2-11] [3.1.1: MQTT-3.1.2-13]",
        "10",
        f"{MQTT_NAME} 04 0a 003c 0001 61",
        f"{MQTT_NAME} 05 0a 003c 00 0001 61",
        MALFORMED_PACKET,
    ),
    *each(
        "CONNECT Will Retain without Will Flag [MQTT-3.1.2-13] [3.1.1: MQTT-3.1.2-15]",
        "10",
        f"{MQTT_NAME} 04 22 003c 0001 61",
        f"{MQTT_NAME} 05 22 003c 00 0001 61",
        MALFORMED_PACKET,
    ),
    packet(
        "CONNECT password without user name, 3.1.1 [MQTT-3.1.2-22]",
        4,
        "10",
        f"{MQTT_NAME} 04 42 003c 0001 61 0001 70",
        MALFORMED_PACKET,
    ),
    *each(
        "CONNECT fixed header flags not 0 [MQTT-2.1.3-1] [3.1.1: MQTT-2.2.2-2]",
        "11",
        f"{MQTT_NAME} 04 02 003c 0001 61",
        f"{MQTT_NAME} 05 02 003c 00 0001 61",
        MALFORMED_PACKET,
    ),
    *each(
        "CONNECT without client identifier [MQTT-3.1.3-3]",
        "10",
        f"{MQTT_NAME} 04 02 003c",
        f"{MQTT_NAME} 05 02 003c 00",
        MALFORMED_PACKET,
    ),
    *each(
        "CONNECT client identifier longer than the packet",
        "10",
        f"{MQTT_NAME} 04 02 003c 0005 61",
        f"{MQTT_NAME} 05 02 003c 00 0005 61",
        MALFORMED_PACKET,
    ),
    *each(
        "CONNECT client identifier is not UTF-8 [MQTT-1.5.4-1]",
        "10",
        f"{MQTT_NAME} 04 02 003c 0002 c328",
        f"{MQTT_NAME} 05 02 003c 00 0002 c328",
        MALFORMED_PACKET,
    ),
    *each(
        "CONNECT client identifier with U+0000 [MQTT-1.5.4-2]",
        "10",
        f"{MQTT_NAME} 04 02 003c 0003 610062",
        f"{MQTT_NAME} 05 02 003c 00 0003 610062",
        MALFORMED_PACKET,
    ),
    *each(
        "CONNECT user name with a surrogate [MQTT-1.5.4-1]",
        "10",
        f"{MQTT_NAME} 04 82 003c 0001 61 0003 eda080",
        f"{MQTT_NAME} 05 82 003c 00 0001 61 0003 eda080",
        MALFORMED_PACKET,
    ),
    *each(
        "CONNECT user name announced but absent [MQTT-3.1.2-17] [3.1.1: MQTT-3.1.2-19]",
        "10",
        f"{MQTT_NAME} 04 82 003c 0001 61",
        f"{MQTT_NAME} 05 82 003c 00 0001 61",
        MALFORMED_PACKET,
    ),
    *each(
        "CONNECT password announced but absent [MQTT-3.1.2-19] [3.1.1: MQTT-3.1.2-21]",
        "10",
        f"{MQTT_NAME} 04 c2 003c 0001 61 0001 75",
        f"{MQTT_NAME} 05 c2 003c 00 0001 61 0001 75",
        MALFORMED_PACKET,
    ),
    *each(
        "CONNECT will announced but absent [MQTT-3.1.2-9]",
        "10",
        f"{MQTT_NAME} 04 06 003c 0001 61",
        f"{MQTT_NAME} 05 06 003c 00 0001 61",
        MALFORMED_PACKET,
    ),
    *each(
        "CONNECT will topic with wildcard [MQTT-3.3.2-2]",
        "10",
        f"{MQTT_NAME} 04 06 003c 0001 61 0003 612f23 0001 70",
        f"{MQTT_NAME} 05 06 003c 00 0001 61 00 0003 612f23 0001 70",
        MALFORMED_PACKET,
    ),
    *each(
        "CONNECT will topic is empty [MQTT-4.7.3-1]",
        "10",
        f"{MQTT_NAME} 04 06 003c 0001 61 0000 0001 70",
        f"{MQTT_NAME} 05 06 003c 00 0001 61 00 0000 0001 70",
        PROTOCOL_ERROR,
    ),
    *each(
        "CONNECT will topic is not UTF-8 [MQTT-3.1.3-11] [3.1.1: MQTT-3.1.3-10]",
        "10",
        f"{MQTT_NAME} 04 06 003c 0001 61 0002 c080 0001 70",
        f"{MQTT_NAME} 05 06 003c 00 0001 61 00 0002 c080 0001 70",
        MALFORMED_PACKET,
    ),
    *each(
        "CONNECT with bytes left over",
        "10",
        f"{MQTT_NAME} 04 02 003c 0001 61 00",
        f"{MQTT_NAME} 05 02 003c 00 0001 61 00",
        MALFORMED_PACKET,
    ),
    *(
        packet(name, 5, "10", f"{MQTT_NAME} 05 02 003c {block} 0001 61", code)
        for name, block, code in [
            ("CONNECT Session Expiry Interval twice", "0a 1100000001 1100000002", PROTOCOL_ERROR),
            ("CONNECT Receive Maximum 0", "03 210000", PROTOCOL_ERROR),
            ("CONNECT Maximum Packet Size 0", "05 2700000000", PROTOCOL_ERROR),
            ("CONNECT Request Response Information 2", "02 1902", PROTOCOL_ERROR),
            ("CONNECT Request Problem Information 2", "02 1702", PROTOCOL_ERROR),
            ("CONNECT Authentication Data without method", "04 16000161", PROTOCOL_ERROR),
            ("CONNECT with a property of PUBLISH", "03 230001", MALFORMED_PACKET),
            ("CONNECT with an unknown property", "02 7f00", MALFORMED_PACKET),
            ("CONNECT property cut off by the property length", "03 110000", MALFORMED_PACKET),
            ("CONNECT User Property without value [MQTT-1.5.7-1]", "04 26000161", MALFORMED_PACKET),
            ("CONNECT property length beyond the packet", "40 1100000001", MALFORMED_PACKET),
            ("CONNECT property length too long encoded [MQTT-1.5.5-1]", "8000", MALFORMED_PACKET),
            ("CONNECT property length of five bytes", "8080808001", MALFORMED_PACKET),
        ]
    ),
    packet(
        "CONNECT will with a property of CONNECT",
        5,
        "10",
        f"{MQTT_NAME} 05 06 003c 00 0001 61 05 1100000001 0001 74 0001 70",
        MALFORMED_PACKET,
    ),
    packet(
        "CONNECT Will Delay Interval twice",
        5,
        "10",
        f"{MQTT_NAME} 05 06 003c 00 0001 61 0a 1800000001 1800000001 0001 74 0001 70",
        PROTOCOL_ERROR,
    ),
    Malformed(
        "CONNECT Remaining Length too long encoded [MQTT-1.5.5-1]",
        5,
        "108e00 00044d515454 05 02 003c 00 0001 61".replace(" ", ""),
        MALFORMED_PACKET,
    ),
]
