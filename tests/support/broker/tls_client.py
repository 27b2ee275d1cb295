"""A TLS client at the level of records: it can stop at any byte, and end its stream in every way."""

import asyncio
import socket
import ssl
import struct
from typing import Self

import pytest

from tests.support.process import Address


class TlsClient:
    """One connection, which sends nothing by itself."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self.loop = asyncio.get_running_loop()
        self.socket = socket.socket()
        self.socket.setblocking(False)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16_384)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # what has been sent has left
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_hostname="localhost")

    async def connect(self, address: tuple[str, int]) -> Self:
        await self.loop.sock_connect(self.socket, address)
        while True:
            try:
                self.tls.do_handshake()
            except ssl.SSLWantReadError:
                await self.send(self.outgoing.read())
                self.incoming.write(await self.loop.sock_recv(self.socket, 65_536))
            else:
                await self.send(self.outgoing.read())
                return self

    def seal(self, data: bytes) -> bytes:
        """The records that say this."""
        self.tls.write(data)
        return self.outgoing.read()

    def goodbye(self) -> bytes:
        """The record that says close_notify."""
        with pytest.raises(ssl.SSLWantReadError):
            self.tls.unwrap()
        return self.outgoing.read()

    async def send(self, data: bytes) -> None:
        await self.loop.sock_sendall(self.socket, data)

    async def read(self, count: int) -> bytes:
        """This many bytes, or what comes before the server's close_notify."""
        data = b""
        while len(data) < count:
            try:
                piece = self.tls.read(count - len(data))
            except ssl.SSLWantReadError:
                received = await asyncio.wait_for(self.loop.sock_recv(self.socket, 65_536), 5)
                assert received, "FIN without close_notify"
                self.incoming.write(received)
            except ssl.SSLZeroReturnError:
                break
            else:
                if not piece:
                    break
                data += piece
        return data

    def reset(self) -> None:
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


def client_hello(address: Address, context: ssl.SSLContext) -> bytes:
    """What a TLS client says first."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing, server_hostname=address.host).do_handshake()
    return outgoing.read()
