"""A broker without sockets: connections on transports of our own, and a clock that the test turns.

What takes hours over a socket (expiry, delays, keepalive) takes no time here, and a transport can be as slow as needed.
"""

import asyncio
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

from broker.broker import Broker
from broker.connection.client_socket import ClientSocket
from broker.runtime.clock import monotonic_us
from broker.storage.journal import Journal
from config.models import Config
from protocol.connack import Connack
from protocol.connect import Connect, Will
from protocol.decoder import Decoder
from protocol.packet import Packet
from protocol.properties import Properties
from protocol.suback import Suback
from protocol.subscribe import Subscribe, Subscription

T = TypeVar("T")
P = TypeVar("P", bound=Packet)

TURNS = 5
"""Turns of the loop after each action: a session needs two for its passes."""


class Transport(asyncio.Transport):
    """Keeps what is written. `stuck` means that the client reads nothing: it never finishes closing."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.reading = True
        self.stuck = False
        self.closed = False
        self.writes_after_close = 0
        self.high: int | None = None
        """Bytes past which a real one would ask for a pause."""
        self.protocol: ClientSocket
        self._loop = loop
        self._lost = False

    def write(self, data: Any) -> None:
        """Take it, and notice who writes when all has been said."""
        self.writes_after_close += self.closed
        self.written.append(bytes(data))

    def close(self) -> None:
        """Close as soon as everything is written: now, unless the client is stuck."""
        self.closed = True
        if not self.stuck:
            self.abort()

    def abort(self) -> None:
        """The connection is gone, as the loop reports it: at its next turn."""
        self.closed = True
        if not self._lost:
            self._lost = True
            self._loop.call_soon(self.protocol.connection_lost, None)

    def get_write_buffer_size(self) -> int:
        """What a client that has read nothing would leave waiting."""
        return sum(map(len, self.written))

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Take a note: the tests say themselves when the transport is full."""
        self.high = high

    def can_write_eof(self) -> bool:
        """No: closing is all that there is. (TCP and TLS can close one side, and do so in tests/fuzz.)"""
        return False

    def pause_reading(self) -> None:
        """The broker does not want to read from this client."""
        self.reading = False

    def resume_reading(self) -> None:
        """It does again."""
        self.reading = True


class LocalClient:
    """One connection to a LocalBroker, at the level of packets."""

    def __init__(self, local: "LocalBroker", version: int) -> None:
        self.version = version
        self.transport = Transport(local.loop)
        self.socket = self.transport.protocol = ClientSocket(local.broker.handlers, "local")
        self.connection = self.socket.connection
        self._local = local
        self._decoder = Decoder(version=version)
        local.run(lambda: self.socket.connection_made(self.transport))

    def send(self, *items: Packet | bytes) -> None:
        """Let the broker read this, in one piece."""
        data = b"".join(item if isinstance(item, bytes) else item.encode(self.version) for item in items)
        self._local.run(lambda: self.socket.data_received(data))

    def received(self) -> list[Packet]:
        """Everything that has been written since the last call."""
        data, self.transport.written = b"".join(self.transport.written), []
        self._decoder.feed(data)
        packets = []
        while (packet := self._decoder.next_packet()) is not None:
            packets.append(packet)
        return packets

    def expect(self, kind: type[P]) -> P:
        """The one packet that has been written since, which has to be of this class."""
        packets = self.received()
        assert [type(packet) for packet in packets] == [kind], packets
        packet = packets[0]
        assert isinstance(packet, kind)
        return packet

    def connect(
        self,
        client_id: str,
        *,
        clean_start: bool = True,
        keep_alive: int = 0,
        will: Will | None = None,
        properties: Properties | None = None,
    ) -> Connack:
        """CONNECT; returns the CONNACK, which has to be all that comes back."""
        self.send(Connect(client_id, clean_start, keep_alive, will=will, properties=properties, version=self.version))
        return self.expect(Connack)

    def subscribe(self, topic_filter: str, qos: int = 0) -> None:
        """SUBSCRIBE to one filter."""
        self.send(Subscribe(1, [Subscription(topic_filter, qos)]))
        assert self.expect(Suback).reason_codes == [qos]

    def drop(self) -> None:
        """The connection breaks."""
        self._local.run(self.transport.abort)

    @property
    def gone(self) -> bool:
        """Whether the broker has closed or lost this connection."""
        return self.socket.transport is None


class LocalBroker:
    """A broker in this process, with a loop that runs only while something is done to it.

    So its tests do not await, and the loop is not the one that pytest-asyncio has for those that do: that one would
    run on by itself between two steps, and a test could not say what has happened after the first alone.
    """

    def __init__(self, journal: Journal | None = None, **sections: Any) -> None:
        self.journal = journal
        self.loop = asyncio.new_event_loop()
        self.crashes: list[dict[str, Any]] = []
        self.loop.set_exception_handler(lambda _, context: self.crashes.append(context))
        self.broker = Broker(Config.model_validate(sections), monotonic_us(), journal=journal)
        self._ahead = 0

    def run(self, action: Callable[[], T]) -> T:
        """Do something inside the loop, then let the loop turn until all is quiet."""
        return self.complete(self._run(action))

    def complete(self, work: Coroutine[Any, Any, T]) -> T:
        """Let the loop run until this is done."""
        return self.loop.run_until_complete(work)

    def client(self, version: int = 5) -> LocalClient:
        """A new connection."""
        return LocalClient(self, version)

    def pass_time(self, seconds: float) -> None:
        """Turn the wheel's clock on, in steps as fine as the wheel's own."""
        self._ahead += int(seconds * 1_000_000)
        self.run(lambda: self.broker.wheel.advance(monotonic_us() + self._ahead))

    async def _run(self, action: Callable[[], T]) -> T:
        result = action()
        for _ in range(TURNS):
            await asyncio.sleep(0)
        return result

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for connection in list(self.broker.connections.open):
            self.run(connection.abort)
        self.loop.close()
        if kind is None:
            assert not self.crashes, self.crashes
