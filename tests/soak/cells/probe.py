"""How long deliveries take between the clients of each two cells: `python -m tests.soak.cells.probe PORT CELLS RATE`.

A process of its own, so that it waits for no other client. It writes a line for each delivery: when it came, from which
cell to which, and how many seconds it took.
"""

import asyncio
import struct
import sys
import time
from contextlib import suppress
from typing import Final

from protocol.acknowledgements import Puback
from protocol.connack import Connack
from protocol.connect import Connect
from protocol.decoder import Decoder
from protocol.packet import Packet
from protocol.publish import Publish
from protocol.subscribe import Subscribe, Subscription
from tests.support.broker.cells import at_home
from tests.support.brokers import HOST

STAMP: Final = struct.Struct(">Hd")
"""A payload: the cell of its publisher, and when it was published."""
AGAIN: Final = 0.2
"""Seconds until a client connects again."""


class ProbeClient(asyncio.Protocol):
    """One client. It subscribes if it is to receive; it is `open` from CONNACK on."""

    def __init__(self, cell: int, client_id: str, receives: bool) -> None:
        self.cell = cell
        self.closed = asyncio.Event()
        self.open = False
        self._client_id = client_id
        self._receives = receives
        self._decoder = Decoder(version=5)
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send CONNECT."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.send(Connect(self._client_id, version=5, keep_alive=10))

    def send(self, packet: Packet) -> None:
        """Send a packet."""
        assert self._transport is not None
        self._transport.write(packet.encode(5))

    def data_received(self, data: bytes) -> None:
        """Note what comes."""
        now = time.monotonic()
        self._decoder.feed(data)
        while (packet := self._decoder.next_packet()) is not None:
            if isinstance(packet, Connack):
                self.open = not packet.reason_code
                if self.open and self._receives:
                    self.send(Subscribe(1, [Subscription("probe/#", 1)]))
            elif isinstance(packet, Publish):
                cell, at = STAMP.unpack_from(packet.payload)
                print(f"{now:.4f} {cell} {self.cell} {now - at:.6f}", flush=True)
                self.send(Puback(packet.packet_id))

    def connection_lost(self, exc: Exception | None) -> None:
        """Have it connect again."""
        self.open = False
        self.closed.set()


async def stay(port: int, cell: int, client_id: str, clients: dict[str, ProbeClient]) -> None:
    """Keep one client connected."""
    loop = asyncio.get_running_loop()
    receives = client_id.startswith("to")
    while True:
        with suppress(OSError):
            _, made = await loop.create_connection(lambda: ProbeClient(cell, client_id, receives), HOST, port)
            clients[client_id] = made
            await made.closed.wait()
        await asyncio.sleep(AGAIN)  # the rate of reconnecting, as clients have one: it waits for nothing


async def run(port: int, cells: int, rate: float) -> None:
    """Publish from each cell at this rate, until the process is ended."""
    clients: dict[str, ProbeClient] = {}
    tasks = [
        asyncio.create_task(stay(port, cell, next(at_home(cell, cells, way)), clients))
        for cell in range(1, cells + 1)
        for way in ("to", "from")
    ]
    number = 0
    while not any(task.done() for task in tasks):
        number = number % 65_535 + 1
        for client_id, client in clients.items():
            if client.open and client_id.startswith("from"):
                payload = STAMP.pack(client.cell, time.monotonic()).ljust(64, b".")
                client.send(Publish(b"probe/%d" % client.cell, payload, 1, packet_id=number))
        await asyncio.sleep(1 / rate)  # the rate of the load: it waits for nothing


if __name__ == "__main__":
    asyncio.run(run(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])))
