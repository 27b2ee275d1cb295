"""The simulated network does to a connection what was asked for, and nothing else."""

import asyncio
import socket
from collections.abc import AsyncIterator

import pytest

from tests.soak.network import Link, LostError, Network
from tests.support.process import Address

pytestmark = pytest.mark.once

SAID = bytes(range(256)) * 1000
"""More than sockets and links hold."""

Scene = tuple[Link, asyncio.StreamReader, asyncio.StreamWriter]


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    """A client's link, and what it is read and written by behind the network."""
    accepted: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Queue()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await accepted.put((reader, writer))

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    network = Network(Address(*server.sockets[0].getsockname()), "a seed", every=0)
    link = await network.connect("client")
    reader, writer = await accepted.get()
    yield link, reader, writer
    writer.transport.abort()
    await network.close()
    server.close()
    await server.wait_closed()


async def read_until_lost(link: Link) -> bytes:
    """What comes until the connection is gone."""
    data = b""
    try:
        while True:
            data += await link.read()
    except LostError:
        return data


async def test_everything_passes(scene: Scene) -> None:
    """Without trouble all bytes pass in order, both ways, followed by the client's close."""
    link, reader, writer = scene
    sending = asyncio.create_task(link.write(SAID))
    assert await reader.readexactly(len(SAID)) == SAID
    await sending
    writer.write(SAID)
    received = b""
    while len(received) < len(SAID):
        received += await link.read()
    assert received == SAID
    await link.write(b"last")
    link.close()
    assert await reader.read() == b"last"


@pytest.mark.parametrize("up", [True, False])
async def test_stall(scene: Scene, up: bool) -> None:
    """While a direction is stalled nothing passes, the writer blocks at last, and then everything passes."""
    link, reader, writer = scene
    (link.up if up else link.down).stall()

    async def send() -> None:
        if up:
            for _ in range(20):
                await link.write(SAID)
        else:
            for _ in range(20):
                writer.write(SAID)
                await writer.drain()

    async def receive() -> bytes:
        data = b""
        while len(data) < 20 * len(SAID):
            data += await (reader.read(65_536) if up else link.read())
        return data

    sending, receiving = asyncio.create_task(send()), asyncio.create_task(receive())
    done, _ = await asyncio.wait([sending, receiving], timeout=0.3)
    assert not done
    (link.up if up else link.down).clear()
    assert await receiving == 20 * SAID
    await sending


async def test_cut_within(scene: Scene) -> None:
    """A link that is cut after a number of bytes has passed exactly those, and both sides are closed."""
    link, reader, _ = scene
    link.up.left = 7
    await link.write(b"0123456789")
    assert await reader.read(100) == b"0123456"
    assert await reader.read(100) == b""
    with pytest.raises(LostError):
        await link.read()
    with pytest.raises(LostError):
        await link.write(b"more")


async def test_reset(scene: Scene) -> None:
    """A reset arrives as a reset."""
    link, reader, _ = scene
    link.cut(reset=True)
    with pytest.raises(ConnectionResetError):
        await reader.read()
    assert await read_until_lost(link) == b""


async def test_vanish(scene: Scene) -> None:
    """If only the client's side ends, the broker's side stays open for a while."""
    link, reader, _ = scene
    link.cut(unnoticed=0.3)
    assert await read_until_lost(link) == b""
    reading = asyncio.create_task(reader.read())
    done, _ = await asyncio.wait([reading], timeout=0.1)
    assert not done
    assert await reading == b""


async def test_broker_closes(scene: Scene) -> None:
    """Data before the broker's close is read first."""
    link, _, writer = scene
    writer.write(b"farewell")
    writer.close()
    assert await read_until_lost(link) == b"farewell"


async def test_slow(scene: Scene) -> None:
    """A slow direction passes everything."""
    link, reader, _ = scene
    link.up.bytes_per_second = 1000
    await link.write(bytes(100))
    assert await reader.readexactly(100) == bytes(100)


async def test_nobody_listens() -> None:
    """A connection that is refused is lost at once."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        network = Network(Address(*listener.getsockname()), "a seed", every=0)
    with pytest.raises(LostError):
        await network.connect("client")


async def test_listener_ends_before_it_accepts() -> None:
    """A connection that waits to be accepted when the broker is killed is lost, as one that is refused."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        network = Network(Address(*listener.getsockname()), "a seed", every=0)
        connecting = asyncio.create_task(network.connect("client"))
        await asyncio.sleep(0)  # it has asked by now, and has not looked yet at what came of it
    with pytest.raises(LostError):
        await connecting
