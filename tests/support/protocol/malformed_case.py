"""The form of an entry in the catalogue of malformed packets, and short ways to write one."""

from typing import Final, NamedTuple

MALFORMED_PACKET: Final = 0x81
PROTOCOL_ERROR: Final = 0x82
UNSUPPORTED_PROTOCOL_VERSION: Final = 0x84
TOPIC_ALIAS_INVALID: Final = 0x94
MQTT_NAME: Final = "0004 4d515454"
"""The protocol name as CONNECT begins with it."""


class Malformed(NamedTuple):
    """One case; `data` is the packet in hexadecimal."""

    name: str
    version: int
    data: str
    reason_code: int

    @property
    def is_connect(self) -> bool:
        """Whether this is the first packet of a connection rather than one after CONNECT."""
        return self.data.startswith("1")


def packet(name: str, version: int, first: str, body: str, reason_code: int) -> Malformed:
    """Put the right Remaining Length between first byte and body; all of them are short."""
    payload = bytes.fromhex(body)
    assert len(payload) < 128
    return Malformed(name, version, f"{first}{len(payload):02x}{payload.hex()}", reason_code)


def each(name: str, first: str, body4: str, body5: str, reason_code: int) -> list[Malformed]:
    """The same defect in both versions."""
    return [
        packet(f"{name}, 3.1.1", 4, first, body4, reason_code),
        packet(f"{name}, 5.0", 5, first, body5, reason_code),
    ]
