"""Malformed SUBSCRIBE and UNSUBSCRIBE packets."""

from typing import Final

from .malformed_case import MALFORMED_PACKET, PROTOCOL_ERROR, each, packet

SUBSCRIBE: Final = [
    *each("SUBSCRIBE flags not 2 [MQTT-3.8.1-1]", "80", "0001 0001 61 00", "0001 00 0001 61 00", MALFORMED_PACKET),
    *each(
        "SUBSCRIBE packet identifier 0 [MQTT-2.2.1-3] [3.1.1: MQTT-2.3.1-1]",
        "82",
        "0000 0001 61 00",
        "0000 00 0001 61 00",
        PROTOCOL_ERROR,
    ),
    *each(
        "SUBSCRIBE without topic filter [MQTT-3.8.3-2] [3.1.1: MQTT-3.8.3-3]",
        "82",
        "0001",
        "0001 00",
        PROTOCOL_ERROR,
    ),
    *each("SUBSCRIBE without options", "82", "0001 0001 61", "0001 00 0001 61", MALFORMED_PACKET),
    packet("SUBSCRIBE QoS 3, 3.1.1 [MQTT-3.8.3-4]", 4, "82", "0001 0001 61 03", MALFORMED_PACKET),
    packet("SUBSCRIBE QoS 3, 5.0", 5, "82", "0001 00 0001 61 03", PROTOCOL_ERROR),
    packet("SUBSCRIBE No Local in 3.1.1 [MQTT-3.8.3-4]", 4, "82", "0001 0001 61 04", MALFORMED_PACKET),
    packet("SUBSCRIBE reserved option bit 6 [MQTT-3.8.3-5]", 5, "82", "0001 00 0001 61 40", MALFORMED_PACKET),
    packet("SUBSCRIBE reserved option bit 7 [MQTT-3.8.3-5]", 5, "82", "0001 00 0001 61 80", MALFORMED_PACKET),
    packet("SUBSCRIBE Retain Handling 3", 5, "82", "0001 00 0001 61 30", PROTOCOL_ERROR),
    packet(
        "SUBSCRIBE No Local on a shared subscription [MQTT-3.8.3-4]",
        5,
        "82",
        f"0001 00 000a {b'$share/g/a'.hex()} 04",
        PROTOCOL_ERROR,
    ),
    *(
        packet(f"SUBSCRIBE {name}, {said}", version, "82", f"0001 {block} {length:04x} {text} 00", code)
        for version, block, said in ((4, "", "3.1.1"), (5, "00", "5.0"))
        for name, length, text, code in [
            ("filter is empty [MQTT-4.7.3-1]", 0, "", MALFORMED_PACKET),
            ("filter a/#/b [MQTT-4.7.1-1] [3.1.1: MQTT-4.7.1-2]", 5, b"a/#/b".hex(), MALFORMED_PACKET),
            ("filter a# [MQTT-4.7.1-1] [3.1.1: MQTT-4.7.1-2]", 2, b"a#".hex(), MALFORMED_PACKET),
            ("filter a+/b [MQTT-4.7.1-2] [3.1.1: MQTT-4.7.1-3]", 4, b"a+/b".hex(), MALFORMED_PACKET),
            ("filter with U+0000 [MQTT-4.7.3-2]", 2, "6100", MALFORMED_PACKET),
            ("filter is not UTF-8 [MQTT-3.8.3-1]", 1, "80", MALFORMED_PACKET),
        ]
    ),
    *(
        packet(f"SUBSCRIBE {name}", 5, "82", f"0001 00 {len(text):04x} {text.encode().hex()} 00", code)
        for name, text, code in [
            ("share name is empty [MQTT-4.8.2-1]", "$share//a", MALFORMED_PACKET),
            ("share name with wildcard [MQTT-4.8.2-2]", "$share/+/a", MALFORMED_PACKET),
            ("share name without filter [MQTT-4.8.2-2]", "$share/g", MALFORMED_PACKET),
            ("filter of a share is wrong [MQTT-4.7.1-1]", "$share/g/#/a", MALFORMED_PACKET),
        ]
    ),
    packet("SUBSCRIBE Subscription Identifier 0", 5, "82", "0001 02 0b00 0001 61 00", PROTOCOL_ERROR),
    packet("SUBSCRIBE Subscription Identifier twice", 5, "82", "0001 04 0b01 0b02 0001 61 00", PROTOCOL_ERROR),
    packet("SUBSCRIBE with a Reason String", 5, "82", "0001 04 1f000161 0001 61 00", MALFORMED_PACKET),
]

UNSUBSCRIBE: Final = [
    *each("UNSUBSCRIBE flags not 2 [MQTT-3.10.1-1]", "a0", "0001 0001 61", "0001 00 0001 61", MALFORMED_PACKET),
    *each(
        "UNSUBSCRIBE packet identifier 0 [MQTT-2.2.1-3] [3.1.1: MQTT-2.3.1-1]",
        "a2",
        "0000 0001 61",
        "0000 00 0001 61",
        PROTOCOL_ERROR,
    ),
    *each("UNSUBSCRIBE without topic filter [MQTT-3.10.3-2]", "a2", "0001", "0001 00", PROTOCOL_ERROR),
    *each(
        "UNSUBSCRIBE filter is empty [MQTT-4.7.3-1]",
        "a2",
        "0001 0000",
        "0001 00 0000",
        MALFORMED_PACKET,
    ),
    *each(
        "UNSUBSCRIBE filter is wrong [MQTT-4.7.1-1] [3.1.1: MQTT-4.7.1-2]",
        "a2",
        "0001 0002 2361",
        "0001 00 0002 2361",
        MALFORMED_PACKET,
    ),
    *each(
        "UNSUBSCRIBE filter is not UTF-8 [MQTT-3.10.3-1]",
        "a2",
        "0001 0001 fe",
        "0001 00 0001 fe",
        MALFORMED_PACKET,
    ),
    *each(
        "UNSUBSCRIBE filter longer than the packet",
        "a2",
        "0001 0004 61",
        "0001 00 0004 61",
        MALFORMED_PACKET,
    ),
    packet("UNSUBSCRIBE with a Subscription Identifier", 5, "a2", "0001 02 0b01 0001 61", MALFORMED_PACKET),
]
