"""Reads what a lost connection has left in its socket; asyncio's transports do not."""

import asyncio
import os
from typing import Final

READ_SIZE: Final = 65_536


def left_in_socket(transport: asyncio.BaseTransport) -> bytes:
    """Read the received bytes that are left in the socket; for connection_lost with an error.

    When the client has reset the connection, a write fails and asyncio closes the socket, although the kernel may still
    hold received bytes. Event loops call connection_lost before they close it, so the bytes can be read there: at most
    one socket buffer.
    """
    sock = transport.get_extra_info("socket")
    pieces: list[bytes] = []
    try:
        descriptor: int = sock.fileno()
        while descriptor >= 0 and (piece := os.read(descriptor, READ_SIZE)):
            pieces.append(piece)
    except (AttributeError, OSError):  # there is no socket, it is empty, or it reports the reset
        pass
    return b"".join(pieces)
