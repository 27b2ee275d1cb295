"""asyncio's own transports: `writelines` to a peer that reads nothing pauses the protocol, in each Python."""

import asyncio
import socket

import pytest

from broker.server.asyncio_transport import mend

pytestmark = pytest.mark.once


class Paused(asyncio.Protocol):
    """Notes whether it was told to pause."""

    def __init__(self) -> None:
        self.paused = False

    def pause_writing(self) -> None:
        """There is too much."""
        self.paused = True


async def test_writelines_pauses() -> None:
    """CVE-2024-12254: what a peer does not read is bounded, because the protocol is told."""
    mend()
    mend()  # once more changes nothing
    here, there = socket.socketpair()
    with here, there:
        here.setblocking(False)
        loop = asyncio.get_running_loop()
        transport, protocol = await loop.create_connection(Paused, sock=here)
        written = 0
        while not protocol.paused and written < 100_000_000:
            transport.writelines([b"x" * 10_000, b"y" * 10_000])
            written += 20_000
        assert written < 10_000_000
        transport.abort()
        await asyncio.sleep(0)
