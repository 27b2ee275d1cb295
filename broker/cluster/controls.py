"""What two cells tell each other on a link besides MQTT: PUBLISHes of QoS 0 to topics below `$cell/`.

A link carries PUBLISHes in the version in which they have come, so most are not encoded anew. SOURCE says in which
version those that follow are, and who has published them. It is sent where one of the two changes. The others are about
that publisher, by its number (CL-5).
"""

import struct
from typing import Final

from mypy_extensions import i64

from protocol.primitives import encode_variable_byte_integer

DOLLAR: Final = 0x24
"""The first byte of their topics, and of a few others."""
CONTROLS: Final = b"$cell/"
"""How their topics begin. No other topic that begins so is on a link."""
SOURCE: Final = b"$cell/source"
PAUSE: Final = b"$cell/pause"
"""Hold back what this publisher sends, for a queue of the other cell (FC-16)."""
RESUME: Final = b"$cell/resume"

DRAINED: Final = b"$cell/drained"
"""The other cell stops, and has had acknowledged all that it had for this one."""

_SOURCE: Final = struct.Struct(">BQ")
_NUMBER: Final = struct.Struct(">Q")


def source(form: int, flow: i64) -> bytes:
    """The PUBLISHes that follow have this version and this flow."""
    return control(SOURCE, _SOURCE.pack(form, flow))


def read_source(payload: bytes) -> tuple[int, int]:
    """Version and flow."""
    form, flow = _SOURCE.unpack(data_of(payload))
    return form, flow


def about(topic: bytes, number: int) -> bytes:
    """PAUSE or RESUME of a publisher."""
    return control(topic, _NUMBER.pack(number))


def read_number(payload: bytes) -> int:
    """The number of the publisher."""
    (number,) = _NUMBER.unpack(data_of(payload))
    return int(number)


def control(topic: bytes, data: bytes) -> bytes:
    """A PUBLISH that is one in both versions: its first zero is the length of the properties, or part of the payload.

    The other end may read it in either, so the data begins with another byte.
    """
    remaining = encode_variable_byte_integer(len(topic) + len(data) + 4)
    return b"".join((b"\x30", remaining, bytes((0, len(topic))), topic, b"\0\1", data))


def data_of(payload: bytes) -> bytes:
    """The data of a control."""
    return payload[2:] if payload[0] == 0 else payload[1:]
