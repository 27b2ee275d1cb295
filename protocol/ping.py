"""PINGREQ and PINGRESP: the packets of keep-alive (sections 3.12 and 3.13)."""

from __future__ import annotations

from typing import ClassVar, Final, final

from protocol.packet import Packet
from protocol.packet_types import PINGREQ, PINGRESP
from protocol.primitives import expect_end

PINGREQ_BYTES: Final = b"\xc0\x00"
PINGRESP_BYTES: Final = b"\xd0\x00"


@final
class Pingreq(Packet):
    """Sent by the client to keep its connection alive."""

    __slots__ = ()

    packet_type: ClassVar[int] = PINGREQ

    def encode(self, version: int) -> bytes:
        """Return the packet as bytes, the same in both versions."""
        return PINGREQ_BYTES


@final
class Pingresp(Packet):
    """The server's answer to PINGREQ."""

    __slots__ = ()

    packet_type: ClassVar[int] = PINGRESP

    def encode(self, version: int) -> bytes:
        """Return the packet as bytes, the same in both versions."""
        return PINGRESP_BYTES


def decode_pingreq(data: bytes, position: int, end: int, version: int) -> Pingreq:
    """Read what follows the fixed header of a PINGREQ: nothing."""
    expect_end(position, end, PINGREQ)
    return Pingreq()


def decode_pingresp(data: bytes, position: int, end: int, version: int) -> Pingresp:
    """Read what follows the fixed header of a PINGRESP: nothing."""
    expect_end(position, end, PINGRESP)
    return Pingresp()
