"""Malformed PUBLISH packets and acknowledgements."""

from typing import Final

from .malformed_case import MALFORMED_PACKET, PROTOCOL_ERROR, TOPIC_ALIAS_INVALID, each, packet

PUBLISH: Final = [
    *each("PUBLISH QoS 3 [MQTT-3.3.1-4]", "36", "0001 61 0001 70", "0001 61 0001 00 70", MALFORMED_PACKET),
    *each("PUBLISH DUP at QoS 0 [MQTT-3.3.1-2]", "38", "0001 61 70", "0001 61 00 70", MALFORMED_PACKET),
    *each(
        "PUBLISH packet identifier 0 [MQTT-2.2.1-3] [3.1.1: MQTT-2.3.1-1]",
        "32",
        "0001 61 0000 70",
        "0001 61 0000 00 70",
        PROTOCOL_ERROR,
    ),
    *each("PUBLISH topic with + [MQTT-3.3.2-2]", "30", "0003 612f2b", "0003 612f2b 00", MALFORMED_PACKET),
    *each("PUBLISH topic with # [MQTT-3.3.2-2]", "30", "0001 23", "0001 23 00", MALFORMED_PACKET),
    *each("PUBLISH topic with U+0000 [MQTT-1.5.4-2]", "30", "0002 6100", "0002 6100 00", MALFORMED_PACKET),
    *each("PUBLISH topic is not UTF-8 [MQTT-3.3.2-1]", "30", "0001 ff", "0001 ff 00", MALFORMED_PACKET),
    *each(
        "PUBLISH topic with over-long UTF-8 [MQTT-1.5.4-1]",
        "30",
        "0002 c0af",
        "0002 c0af 00",
        MALFORMED_PACKET,
    ),
    *each(
        "PUBLISH topic with a surrogate [MQTT-1.5.4-1]",
        "30",
        "0003 edb080",
        "0003 edb080 00",
        MALFORMED_PACKET,
    ),
    *each("PUBLISH topic longer than the packet", "30", "0009 61", "0009 61 00", MALFORMED_PACKET),
    *each("PUBLISH of one byte", "30", "00", "00", MALFORMED_PACKET),
    *each("PUBLISH of no byte", "30", "", "", MALFORMED_PACKET),
    *each("PUBLISH QoS 1 without packet identifier [MQTT-2.2.1-3]", "32", "0001 61", "0001 61", MALFORMED_PACKET),
    packet("PUBLISH topic is empty, 3.1.1 [MQTT-4.7.3-1]", 4, "30", "0000 70", PROTOCOL_ERROR),
    packet("PUBLISH without topic and alias, 5.0", 5, "30", "0000 00 70", PROTOCOL_ERROR),
    packet("PUBLISH without property length [MQTT-2.2.2-1]", 5, "30", "0001 61", MALFORMED_PACKET),
    *(
        packet(name, 5, "30", f"0001 61 {block} 70", code)
        for name, block, code in [
            ("PUBLISH Topic Alias 0 [MQTT-3.3.2-8]", "03 230000", TOPIC_ALIAS_INVALID),
            ("PUBLISH Topic Alias twice", "06 230001 230001", PROTOCOL_ERROR),
            ("PUBLISH Payload Format Indicator 2", "02 0102", PROTOCOL_ERROR),
            ("PUBLISH Payload Format Indicator twice", "04 0101 0101", PROTOCOL_ERROR),
            ("PUBLISH Message Expiry Interval twice", "0a 0200000001 0200000001", PROTOCOL_ERROR),
            ("PUBLISH Content Type twice", "08 03000161 03000161", PROTOCOL_ERROR),
            ("PUBLISH Correlation Data twice", "08 09000161 09000161", PROTOCOL_ERROR),
            ("PUBLISH Response Topic with wildcard [MQTT-3.3.2-14]", "04 0800012b", PROTOCOL_ERROR),
            ("PUBLISH Response Topic is empty [MQTT-4.7.3-1]", "03 080000", PROTOCOL_ERROR),
            ("PUBLISH Response Topic is not UTF-8 [MQTT-3.3.2-13]", "04 080001ff", MALFORMED_PACKET),
            ("PUBLISH Content Type is not UTF-8 [MQTT-3.3.2-19]", "04 030001ff", MALFORMED_PACKET),
            ("PUBLISH User Property with U+0000 [MQTT-1.5.7-1]", "07 26000100 000161", MALFORMED_PACKET),
            ("PUBLISH Subscription Identifier 0", "02 0b00", PROTOCOL_ERROR),
            ("PUBLISH Subscription Identifier of five bytes", "06 0bffffffff7f", MALFORMED_PACKET),
            ("PUBLISH Subscription Identifier too long encoded [MQTT-1.5.5-1]", "03 0b8100", MALFORMED_PACKET),
            ("PUBLISH with a property of CONNECT", "05 1100000001", MALFORMED_PACKET),
            ("PUBLISH with a property of the will", "05 1800000001", MALFORMED_PACKET),
            ("PUBLISH with property 0", "02 0000", MALFORMED_PACKET),
            ("PUBLISH property identifier of two bytes", "03 818000", MALFORMED_PACKET),
            ("PUBLISH property length beyond the packet", "20 0101", MALFORMED_PACKET),
            ("PUBLISH property longer than the property length", "03 080004", MALFORMED_PACKET),
        ]
    ),
]

ACKNOWLEDGEMENTS: Final = [
    *each(
        "PUBACK packet identifier 0 [MQTT-2.2.1-3] [3.1.1: MQTT-2.3.1-1]",
        "40",
        "0000",
        "0000",
        PROTOCOL_ERROR,
    ),
    *each("PUBACK of one byte", "40", "00", "00", MALFORMED_PACKET),
    *each("PUBACK flags not 0 [MQTT-2.1.3-1] [3.1.1: MQTT-2.2.2-2]", "42", "0001", "0001", MALFORMED_PACKET),
    *each("PUBREC flags not 0 [MQTT-2.1.3-1] [3.1.1: MQTT-2.2.2-2]", "51", "0001", "0001", MALFORMED_PACKET),
    *each("PUBREL flags not 2 [MQTT-3.6.1-1]", "60", "0001", "0001", MALFORMED_PACKET),
    *each("PUBCOMP flags not 0 [MQTT-2.1.3-1]", "72", "0001", "0001", MALFORMED_PACKET),
    packet("PUBACK with reason code, 3.1.1", 4, "40", "0001 00", MALFORMED_PACKET),
    packet("PUBREL with reason code, 3.1.1", 4, "62", "0001 00", MALFORMED_PACKET),
    packet("PUBACK reason code of another packet [MQTT-3.4.2-1]", 5, "40", "0001 92", PROTOCOL_ERROR),
    packet("PUBREC unknown reason code [MQTT-3.5.2-1]", 5, "50", "0001 ff", PROTOCOL_ERROR),
    packet("PUBREL reason code of another packet [MQTT-3.6.2-1]", 5, "62", "0001 10", PROTOCOL_ERROR),
    packet("PUBCOMP reason code of another packet [MQTT-3.7.2-1]", 5, "70", "0001 80", PROTOCOL_ERROR),
    packet("PUBACK Reason String twice", 5, "40", "0001 00 08 1f000161 1f000161", PROTOCOL_ERROR),
    packet("PUBACK with a property of PUBLISH", 5, "40", "0001 00 02 0101", MALFORMED_PACKET),
    packet("PUBCOMP with bytes behind the properties", 5, "70", "0001 00 00 00", MALFORMED_PACKET),
    packet("PUBREC property length beyond the packet", 5, "50", "0001 00 09 1f", MALFORMED_PACKET),
]
