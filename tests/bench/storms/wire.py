"""A connection of a storm: MQTT packets over asyncio, from an address of its own."""

import asyncio
from contextlib import suppress
from typing import Self

from protocol.connack import Connack
from protocol.connect import Connect
from protocol.decoder import Decoder
from protocol.packet import Packet
from protocol.properties import SESSION_EXPIRY_INTERVAL, Properties
from tests.support.process import Address

READ = 65_536


class Wire:
    """One connection. ConnectionError if the broker closes it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, version: int) -> None:
        self._reader = reader
        self._writer = writer
        self._decoder = Decoder(version=version)
        self.version = version

    @classmethod
    async def open(cls, address: Address, source: str = "127.0.0.1", version: int = 5) -> Self:
        """Connect by TCP from `source`, an address of 127.0.0.0/8."""
        reader, writer = await asyncio.open_connection(*address, local_addr=(source, 0), limit=READ)
        return cls(reader, writer, version)

    async def enter(
        self, user: str, password: str, client_id: str = "", *, clean_start: bool = True, expiry: int = 0
    ) -> int:
        """Log in; returns the reason code of CONNACK."""
        properties: Properties | None = {SESSION_EXPIRY_INTERVAL: expiry} if expiry and self.version == 5 else None
        connect = Connect(
            client_id,
            clean_start,
            0,
            username=user,
            password=password.encode(),
            properties=properties,
            version=self.version,
        )
        self.send(connect.encode(self.version))
        connack = await self.receive()
        if not isinstance(connack, Connack):
            raise ConnectionError(f"CONNECT was answered by {connack!r}")
        return connack.reason_code

    def send(self, data: bytes) -> None:
        """Send, without waiting until there is room."""
        self._writer.write(data)

    async def drain(self) -> None:
        """Wait until there is room for more."""
        await self._writer.drain()

    async def receive(self) -> Packet:
        """The next packet."""
        while (packet := self._decoder.next_packet()) is None:
            data = await self._reader.read(READ)
            if not data:
                raise ConnectionError("closed by the broker")
            self._decoder.feed(data)
        return packet

    def deaf(self) -> None:
        """Read nothing more."""
        transport = self._writer.transport
        assert isinstance(transport, asyncio.ReadTransport)
        transport.pause_reading()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.transport.abort()
        with suppress(OSError):
            await self._writer.wait_closed()
