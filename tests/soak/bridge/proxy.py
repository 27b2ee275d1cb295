"""The network between two brokers: connections stall, are slow, late, cut or reset, and may overtake each other."""

import asyncio
import random
import struct
from collections import Counter
from contextlib import suppress
from socket import SO_LINGER, SOL_SOCKET
from typing import Final

from tests.support.process import Address

CHUNK: Final = 16_384
FAULTS: Final = ("delay", "slow", "stall", "close", "reset", "cut", "lose")
"""`lose`: the bridge sees its connection end, and the remote broker only later, when the next one is there already."""
LATE: Final = 0.2
"""Seconds by which `delay` makes each chunk late."""
SLOW: Final = 20_000
"""Bytes a second of `slow`."""


class Passage:
    """One connection through the proxy."""

    def __init__(self) -> None:
        self.delay = 0.0
        self.rate = 0
        """Bytes a second; 0 = any."""
        self.left: int | None = None
        """Bytes after which it is cut; None = it is not."""
        self.moving = asyncio.Event()
        self.moving.set()
        self.writers: list[asyncio.StreamWriter] = []

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass bytes on until either end closes."""
        while data := await reader.read(CHUNK):
            await self.moving.wait()
            if self.delay:
                await asyncio.sleep(self.delay)
            if self.left is not None:
                data, self.left = data[: self.left], self.left - len(data[: self.left])
            if data:
                writer.write(data)
                await writer.drain()
            if self.left == 0:
                return
            if self.rate:
                await asyncio.sleep(len(data) / self.rate)

    def reset(self) -> None:
        """End both sides as a crash does."""
        for writer in self.writers:
            sock = writer.get_extra_info("socket")
            with suppress(OSError):
                sock.setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()

    def heal(self) -> None:
        """Nothing is wrong any more."""
        self.delay, self.rate, self.left = 0.0, 0, None
        self.moving.set()


class Proxy:
    """Takes the connections of the bridge, and passes them on to the remote broker."""

    def __init__(self, target: Address, chance: random.Random) -> None:
        self._target = target
        self._chance = chance
        self._passages: set[Passage] = set()
        self._late: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.happened: Counter[str] = Counter()

    async def open(self) -> int:
        """Listen; returns the port."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return int(self._server.sockets[0].getsockname()[1])

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        passage = Passage()
        passage.writers.append(writer)
        try:
            far_reader, far_writer = await asyncio.open_connection(*self._target)
        except OSError:
            writer.transport.abort()
            return
        passage.writers.append(far_writer)
        self._passages.add(passage)
        ways = [
            asyncio.create_task(passage.carry(reader, far_writer)),
            asyncio.create_task(passage.carry(far_reader, writer)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            self._passages.discard(passage)
            for each in passage.writers:
                each.close()

    async def disturb(self, seconds: float) -> None:
        """Something goes wrong every now and then."""
        until = asyncio.get_running_loop().time() + seconds
        while asyncio.get_running_loop().time() < until:
            await asyncio.sleep(self._chance.uniform(0.2, 1.5))
            for passage in list(self._passages):
                await self._harm(passage, self._chance.choice(FAULTS))

    async def _harm(self, passage: Passage, fault: str) -> None:
        self.happened[fault] += 1
        if fault == "delay":
            passage.delay = LATE
        elif fault == "slow":
            passage.rate = SLOW
        elif fault == "stall":
            passage.moving.clear()
        elif fault == "cut":
            passage.left = self._chance.randrange(1, 5_000)
        elif fault == "reset":
            passage.reset()
        elif fault == "close":
            for writer in passage.writers:
                writer.close()
        else:
            passage.moving.clear()
            passage.writers[0].transport.abort()
            task = asyncio.create_task(self._end_later(passage))
            self._late.add(task)
            task.add_done_callback(self._late.discard)
        if fault in ("delay", "slow", "stall"):
            await asyncio.sleep(self._chance.uniform(0.1, 1.5))
            passage.heal()

    async def _end_later(self, passage: Passage) -> None:
        await asyncio.sleep(self._chance.uniform(0.5, 2))
        passage.heal()
        passage.reset()

    async def close(self) -> None:
        """Let nobody in any more."""
        if self._server is not None:
            self._server.close()
        for passage in list(self._passages):
            passage.reset()
        await asyncio.gather(*self._late, return_exceptions=True)
