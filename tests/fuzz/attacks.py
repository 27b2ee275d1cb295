"""What hostile clients do to a broker: one function per kind of attack, each on a connection of its own.

An attack that the broker has to answer by closing the connection waits for that and raises `NotClosedError` if it
does not come. All randomness comes from the generator that is handed in, so a seed repeats an attack exactly.
"""

import asyncio
import random
import socket
import struct
from collections.abc import Awaitable, Callable

from protocol.acknowledgements import Pubrel
from protocol.connect import Connect, Will
from protocol.ping import Pingreq
from protocol.publish import encode_publish
from protocol.subscribe import Subscribe, Subscription
from tests.support.process import Address
from tests.support.protocol.malformed import MALFORMED, SECOND_CONNECT, Malformed

PATIENCE = 20.0
"""Seconds in which the broker has to do what it must, however busy it is."""

MOMENT = 0.005
"""Seconds between two bytes of a dribble."""

STRANGERS = (
    b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"SSH-2.0-OpenSSH_9.2\r\n",
    bytes.fromhex("160301007a010000760303") + bytes(115),  # the beginning of a TLS handshake
    b"\0" * 64,
    b"\xff" * 64,
)


class NotClosedError(Exception):
    """The broker has not closed a connection that it had to close."""


class Connection:
    """A connection on which anything may be sent."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, address: Address) -> "Connection":
        """Connect by TCP, and no further."""
        return cls(*await asyncio.open_connection(*address))

    def send(self, *data: bytes) -> None:
        """Send without waiting; whatever the broker does is read later, or never."""
        self._writer.write(b"".join(data))

    async def hear(self, seconds: float) -> bytes:
        """Return what the broker says within some time; empty if nothing, or if it closes."""
        try:
            return await asyncio.wait_for(self._reader.read(65536), seconds)
        except (TimeoutError, ConnectionError):
            return b""

    async def expect_answer(self, first_byte: int) -> None:
        """Wait for an answer that begins so."""
        answer = await self.hear(PATIENCE)
        if answer[:1] != bytes((first_byte,)):
            raise NotClosedError(f"expected a packet with first byte 0x{first_byte:02X}, got {answer[:16]!r}")

    async def expect_close(self) -> None:
        """Wait until the broker has closed."""
        try:
            async with asyncio.timeout(PATIENCE):
                while await self._reader.read(65536):
                    pass
        except ConnectionError:
            return
        except TimeoutError:
            raise NotClosedError(f"still open after {PATIENCE:g} s") from None

    def finish(self) -> None:
        """Close in the ordinary way: FIN."""
        self._writer.close()

    def reset(self) -> None:
        """Close as a crash does: RST, and what was sent may be lost."""
        if not self._writer.is_closing():  # else the broker was faster
            raw = self._writer.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()


Attack = Callable[[Connection, random.Random], Awaitable[None]]


def hello(rng: random.Random, version: int, client_id: str | None = None, will: Will | None = None) -> bytes:
    """Return a CONNECT that every broker accepts."""
    name = f"hostile-{rng.getrandbits(64):x}" if client_id is None else client_id
    return Connect(name, True, 30, will=will, version=version).encode(version)


def valid_session(rng: random.Random, version: int) -> bytes:
    """Return what an honest client sends: CONNECT, SUBSCRIBE, PUBLISH at each QoS, PINGREQ."""
    topic = f"hostile/{rng.getrandbits(32):x}"
    publishes = [
        encode_publish(topic.encode(), rng.randbytes(40), qos, False, False, qos and 10 + qos, None, version)
        for qos in (0, 1, 2)
    ]
    subscribe = Subscribe(1, [Subscription(topic, 2), Subscription("hostile/+/x", 1)]).encode(version)
    return b"".join([hello(rng, version), subscribe, *publishes, Pubrel(12).encode(version), Pingreq().encode(version)])


def either_version(rng: random.Random) -> int:
    """Return 4 or 5."""
    return rng.choice((4, 5))


async def malformed(connection: Connection, rng: random.Random) -> None:
    """A packet from the catalogue of what must be refused."""
    case: Malformed = rng.choice(MALFORMED + SECOND_CONNECT)
    data = bytes.fromhex(case.data)
    if case in MALFORMED and case.is_connect:
        connection.send(data)
    else:
        connection.send(hello(rng, case.version), data)
    await connection.expect_close()


async def no_connect(connection: Connection, rng: random.Random) -> None:
    """Ordinary packets, but no CONNECT before them."""
    version = either_version(rng)
    session = valid_session(rng, version)
    connection.send(session[2 + session[1] :])
    await connection.expect_close()


async def stranger(connection: Connection, rng: random.Random) -> None:
    """The first bytes of another protocol."""
    connection.send(rng.choice(STRANGERS))
    await connection.expect_close()


async def noise(connection: Connection, rng: random.Random) -> None:
    """Random bytes, alone or after a CONNECT; they may look like the beginning of a long packet."""
    connection.send(hello(rng, either_version(rng)) if rng.random() < 0.5 else b"", rng.randbytes(rng.randint(1, 2000)))
    await connection.hear(MOMENT)


async def huge_length(connection: Connection, rng: random.Random) -> None:
    """A remaining length beyond all limits, with little behind it."""
    first = rng.choice((b"\x10", hello(rng, either_version(rng)) + b"\x30"))
    length = rng.choice((b"\xff\xff\xff\x7f", b"\xff\xff\xff\xff\x7f", b"\x80\x80\x80\x80\x01"))
    connection.send(first + length + rng.randbytes(rng.randint(0, 4000)))
    await connection.expect_close()


async def half_packet(connection: Connection, rng: random.Random) -> None:
    """A valid session that breaks off anywhere."""
    session = valid_session(rng, either_version(rng))
    connection.send(session[: rng.randrange(len(session))])
    await connection.hear(MOMENT)


async def dribble(connection: Connection, rng: random.Random) -> None:
    """A CONNECT byte by byte: it has to be answered all the same."""
    for byte in hello(rng, either_version(rng)):
        connection.send(bytes((byte,)))
        if await connection.hear(MOMENT):
            return
    await connection.expect_answer(0x20)


async def silence(connection: Connection, rng: random.Random) -> None:
    """Nothing at all."""


async def mutated(connection: Connection, rng: random.Random) -> None:
    """A valid session with some bits flipped, bytes dropped or doubled."""
    session = bytearray(valid_session(rng, either_version(rng)))
    for _ in range(rng.randint(1, 6)):
        position = rng.randrange(len(session))
        change = rng.randrange(3)
        if change == 0:
            session[position] ^= 1 << rng.randrange(8)
        elif change == 1:
            del session[position]
        else:
            session.insert(position, rng.getrandbits(8))
    connection.send(bytes(session))
    await connection.hear(MOMENT)


async def deaf(connection: Connection, rng: random.Random) -> None:
    """Subscribes to what it publishes itself, sends plenty, and never reads."""
    version = either_version(rng)
    topic = f"hostile/{rng.getrandbits(32):x}"
    subscribe = Subscribe(1, [Subscription(topic, 0)]).encode(version)
    publish = encode_publish(topic.encode(), bytes(500), 0, False, False, 0, None, version)
    connection.send(hello(rng, version), subscribe, publish * 400, Pingreq().encode(version) * 400)
    await connection.hear(MOMENT)


async def unfinished_qos2(connection: Connection, rng: random.Random) -> None:
    """QoS 2 messages, more than may wait for their PUBREL, and never a PUBREL."""
    version = either_version(rng)
    topic = f"hostile/{rng.getrandbits(32):x}".encode()
    publishes = [encode_publish(topic, bytes(50), 2, False, False, number, None, version) for number in range(1, 301)]
    connection.send(hello(rng, version), *publishes)
    await connection.hear(MOMENT)


async def many_filters(connection: Connection, rng: random.Random) -> None:
    """Subscriptions deep and wide, and a will, all of which have to go away with the client."""
    version = either_version(rng)
    filters = [
        Subscription("/".join(rng.choice(("+", "a", "hostile", f"{rng.getrandbits(24):x}")) for _ in range(40)), 1)
        for _ in range(50)
    ]
    will = Will(b"hostile/will", bytes(1000), 1)
    connection.send(hello(rng, version, will=will), Subscribe(1, filters).encode(version))
    await connection.hear(MOMENT)


async def take_over(connection: Connection, rng: random.Random) -> None:
    """One of a few client ids that many use at once: each takes the session from another."""
    connection.send(hello(rng, either_version(rng), f"hostile-{rng.randrange(4)}"))
    await connection.hear(0.1)


ATTACKS: tuple[Attack, ...] = (
    malformed,
    no_connect,
    stranger,
    noise,
    huge_length,
    half_packet,
    dribble,
    silence,
    mutated,
    deaf,
    unfinished_qos2,
    many_filters,
    take_over,
)
