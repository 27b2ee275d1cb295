"""What asyncio's transports do not offer: what a lost connection left unread in its socket."""

import asyncio
import os
from typing import Final

READ_SIZE: Final = 65_536


def left_in_socket(transport: asyncio.BaseTransport) -> bytes:
    """Read what has come and has not been read, in connection_lost, when that is called with an error.

    A write that fails because the client has reset the connection closes it, with whatever the kernel still holds.
    Loops call connection_lost before they close the socket, so it can be read there. It is at most what a socket
    buffers.
    """
    sock = transport.get_extra_info("socket")
    pieces: list[bytes] = []
    try:
        descriptor: int = sock.fileno()
        while descriptor >= 0 and (piece := os.read(descriptor, READ_SIZE)):
            pieces.append(piece)
    except (AttributeError, OSError):  # there is no socket; it is empty; or it has given what it had and says "reset"
        pass
    return b"".join(pieces)
