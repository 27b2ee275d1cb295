"""The least that a broker on uvloop can do, for `run.py --prototype`: it forwards PUBLISHes of QoS 0.

What Sluice costs beyond this is its own; what this costs is uvloop's and the kernel's. One subscriber for each topic,
packets below 128 bytes, each whole in one chunk: more is not needed for pairs that send one message at a time.
"""

import asyncio
from typing import cast

import uvloop

CONNACK = b"\x20\x02\x00\x00"
PINGRESP = b"\xd0\x00"


class Client(asyncio.Protocol):
    """One connection."""

    def __init__(self, subscribers: dict[bytes, asyncio.Transport]) -> None:
        self.subscribers = subscribers
        """By topic."""
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has connected."""
        self.transport = cast("asyncio.Transport", transport)  # uvloop's does not inherit it

    def data_received(self, data: bytes) -> None:
        """Answer or forward each packet."""
        assert self.transport is not None
        start = 0
        while start < len(data):
            end = start + 2 + data[start + 1]
            kind = data[start] >> 4
            if kind == 3:
                self.subscribers[_text(data, start + 2)].write(data if end - start == len(data) else data[start:end])
            elif kind == 1:
                self.transport.write(CONNACK)
            elif kind == 8:
                self.subscribers[_text(data, start + 4)] = self.transport
                self.transport.write(bytes([0x90, 3, data[start + 2], data[start + 3], 0]))
            elif kind == 12:
                self.transport.write(PINGRESP)
            start = end


def _text(data: bytes, start: int) -> bytes:
    return data[start + 2 : start + 2 + (data[start] << 8 | data[start + 1])]


async def _serve(port: int) -> None:
    subscribers: dict[bytes, asyncio.Transport] = {}
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Client(subscribers), "127.0.0.1", port, backlog=4096)
    await server.serve_forever()


def go(port: int) -> None:
    """Serve until it is killed."""
    uvloop.run(_serve(port))
