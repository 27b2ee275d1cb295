"""A network of our own between the clients and the broker: it stalls, slows, delays and cuts. It reorders nothing."""

import asyncio
import random
import socket
import struct
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Final

from tests.support.process import Address

CHUNK: Final = 16_384
"""Bytes that are carried at once."""
UNDER_WAY: Final = 65_536
"""Bytes that each direction holds; past that whoever sends has to wait."""
SOCKET_BUFFER: Final = 16_384
"""Of the sockets towards the broker: small, so that a client that does not read shows there before long."""
TICK: Final = 0.02
"""Seconds between two pieces of what goes slowly."""


class LostError(ConnectionError):
    """The connection is gone, as far as the client can tell."""


class Buffer:
    """Bytes from one task to another, so many at most."""

    def __init__(self, limit: int = UNDER_WAY) -> None:
        self._limit = limit
        self._data = bytearray()
        self._ended = False
        self._ignored = False
        self._news = asyncio.Event()
        self._room = asyncio.Event()

    async def put(self, data: bytes) -> None:
        """Add bytes as soon as there is room; LostError if nobody will take them."""
        if self._ignored:
            return
        while len(self._data) >= self._limit and not self._ended:
            self._room.clear()
            await self._room.wait()
        if self._ended:
            raise LostError
        self._data += data
        self._news.set()

    async def get(self) -> bytes:
        """Take what is there; LostError if nothing is left and nothing will come."""
        while not self._data:
            if self._ended:
                raise LostError
            self._news.clear()
            await self._news.wait()
        data = bytes(self._data[:CHUNK])
        del self._data[:CHUNK]
        self._room.set()
        return data

    def ignore(self) -> None:
        """Nobody will read any more: throw away what comes."""
        self._ignored = True
        self._data.clear()
        self._room.set()

    def end(self, *, lose: bool) -> None:
        """Nothing more will come, and what is under way is lost or not."""
        self._ended = True
        if lose:
            self._data.clear()
        self._news.set()
        self._room.set()


class Way:
    """One direction of a link, and what is wrong with it."""

    def __init__(self) -> None:
        self.delay = 0.0
        """Seconds by which each chunk comes later."""
        self.bytes_per_second = 0.0
        """0 = as fast as it goes."""
        self.left: int | None = None
        """Bytes after which the link is to be cut; None = it is not."""
        self._moving = asyncio.Event()
        self._moving.set()

    def stall(self) -> None:
        """Let nothing pass until `clear`."""
        self._moving.clear()

    def clear(self) -> None:
        """Everything is well again."""
        self.delay = self.bytes_per_second = 0.0
        self.left = None
        self._moving.set()

    async def carry(self, data: bytes, out: Callable[[bytes], Awaitable[None]]) -> bool:
        """Pass bytes on; False if this is where the link is to be cut."""
        await self._moving.wait()
        if self.delay:
            await asyncio.sleep(self.delay)
        while data:
            step = max(1, int(self.bytes_per_second * TICK)) if self.bytes_per_second else len(data)
            if self.left is not None:
                step = min(step, self.left)
                self.left -= step
            if step:
                await out(data[:step])
                data = data[step:]
            if self.left == 0:
                return False
            if self.bytes_per_second:
                await asyncio.sleep(TICK)
            await self._moving.wait()
        return True


class Link:
    """One connection to the broker, as a client has it: `write` and `read`, and `cut` for whoever wishes it ill."""

    def __init__(self, sock: socket.socket) -> None:
        self.up = Way()
        """From the client to the broker."""
        self.down = Way()
        self._socket = sock
        self._sending = Buffer()
        self._arriving = Buffer()
        self._closes_after = 0.0
        self._task = asyncio.get_running_loop().create_task(self._run())
        self._task.add_done_callback(lambda _: sock.close())  # also when it is cancelled before it has begun

    @property
    def gone(self) -> bool:
        """Whether the broker and this link have parted."""
        return self._task.done()

    async def write(self, data: bytes) -> None:
        """Send; LostError if the connection is gone."""
        await self._sending.put(data)

    async def read(self) -> bytes:
        """Return what has come; LostError if the connection is gone, or the broker has closed."""
        return await self._arriving.get()

    def close(self) -> None:
        """Let what has been written go out, then close."""
        self._arriving.ignore()
        self._sending.end(lose=False)

    def cut(self, *, reset: bool = False, unnoticed: float = 0.0) -> None:
        """Break, and lose what is under way. With `unnoticed` the broker hears of it so many seconds later."""
        if self._socket.fileno() < 0:
            return
        if reset:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._closes_after = unnoticed
        self._end()
        self._task.cancel()

    def _end(self) -> None:
        self._sending.end(lose=True)
        self._arriving.end(lose=True)

    async def _run(self) -> None:
        pumps = [asyncio.create_task(self._pump_up()), asyncio.create_task(self._pump_down())]
        try:
            await asyncio.gather(*pumps)
        except OSError:
            pass  # LostError is one too
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            self._sending.end(lose=True)
            self._arriving.end(lose=False)
            if self._closes_after:
                await _sleep_anyway(self._closes_after)
            self._socket.close()

    async def _pump_up(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while await self.up.carry(await self._sending.get(), lambda data: loop.sock_sendall(self._socket, data)):
                pass
        except LostError:
            self._socket.shutdown(socket.SHUT_WR)  # the client has closed; what the broker says to that is still read
            return
        self._end()
        raise LostError

    async def _pump_down(self) -> None:
        loop = asyncio.get_running_loop()
        while data := await loop.sock_recv(self._socket, CHUNK):
            if not await self.down.carry(data, self._arriving.put):
                self._end()
                break
        raise LostError


async def _sleep_anyway(seconds: float) -> None:
    """Sleep in a task that is being cancelled already."""
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        pass


class Network:
    """Makes links, each with troubles of its own that the seed has chosen."""

    def __init__(self, address: Address, seed: str, every: float) -> None:
        self.happened: Counter[str] = Counter()
        """What has gone wrong, and how often."""
        self._address = address
        self._seed = seed
        self._every = every
        self._links: set[Link] = set()
        self._numbers: Counter[str] = Counter()
        self._troubling: set[asyncio.Task[None]] = set()
        self._calm = every == 0

    async def connect(self, name: str) -> Link:
        """Return a new connection of the client `name`. Raises LostError if the broker is not there."""
        loop = asyncio.get_running_loop()
        sock = socket.socket()
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SOCKET_BUFFER)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BUFFER)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            await loop.sock_connect(sock, self._address)
        except (ConnectionRefusedError, ConnectionResetError) as error:  # reset: it has ended before it accepted
            sock.close()
            raise LostError from error
        except BaseException:
            sock.close()
            raise
        link = Link(sock)
        self._links = {link for link in self._links if not link.gone} | {link}
        self._numbers[name] += 1
        if not self._calm:
            draws = random.Random(f"{self._seed} {name} {self._numbers[name]}")
            task = loop.create_task(self._trouble(link, draws))
            self._troubling.add(task)
            task.add_done_callback(self._troubling.discard)
        return link

    def calm(self) -> None:
        """From now on nothing goes wrong, and what is wrong is well again."""
        self._calm = True
        for task in self._troubling:
            task.cancel()
        for link in self._links:
            link.up.clear()
            link.down.clear()

    async def close(self) -> None:
        """Cut all that is left."""
        tasks = list(self._troubling)
        for link in self._links:
            if not link.gone:
                link.cut()
                tasks.append(link._task)
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _trouble(self, link: Link, draws: random.Random) -> None:
        while not link.gone:
            await asyncio.sleep(draws.expovariate(1 / self._every))
            kind = draws.choices(list(TROUBLES), [chance for chance, _ in TROUBLES.values()])[0]
            self.happened[kind] += 1
            lasts = TROUBLES[kind][1](link, draws)
            if lasts:
                await asyncio.sleep(lasts)
                link.up.clear()
                link.down.clear()


Trouble = Callable[[Link, random.Random], float]
"""Does something to a link; returns after how many seconds it is to be cleared, 0 = never."""


def _stall_up(link: Link, draws: random.Random) -> float:
    link.up.stall()
    return draws.uniform(0.1, 2.0)


def _stall_down(link: Link, draws: random.Random) -> float:
    link.down.stall()
    return draws.uniform(0.2, 4.0)


def _stall_both(link: Link, draws: random.Random) -> float:
    link.up.stall()
    link.down.stall()
    return draws.uniform(0.1, 2.0)


def _slow(link: Link, draws: random.Random) -> float:
    for way in (link.up, link.down):
        if draws.random() < 0.7:
            way.bytes_per_second = draws.uniform(500, 20_000)
    return draws.uniform(0.5, 3.0)


def _delay(link: Link, draws: random.Random) -> float:
    link.up.delay = draws.uniform(0, 0.1)
    link.down.delay = draws.uniform(0, 0.1)
    return draws.uniform(0.5, 3.0)


def _close(link: Link, draws: random.Random) -> float:
    link.cut()
    return 0.0


def _reset(link: Link, draws: random.Random) -> float:
    link.cut(reset=True)
    return 0.0


def _cut_within(link: Link, draws: random.Random) -> float:
    """After so many bytes more: likely in the middle of a packet."""
    (link.up if draws.random() < 0.5 else link.down).left = draws.randrange(1, 600)
    return 0.0


def _vanish(link: Link, draws: random.Random) -> float:
    """The client notices, the broker does not: when the client comes back, it takes its session over."""
    link.cut(unnoticed=draws.uniform(0.5, 4.0))
    return 0.0


TROUBLES: Final[dict[str, tuple[float, Trouble]]] = {
    "stall up": (2, _stall_up),
    "stall down": (4, _stall_down),
    "stall both": (1, _stall_both),
    "slow": (3, _slow),
    "delay": (2, _delay),
    "close": (1, _close),
    "reset": (1, _reset),
    "cut within": (2, _cut_within),
    "vanish": (1, _vanish),
}
"""How often each comes, in proportion, and what it does."""
