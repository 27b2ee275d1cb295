"""Clients of the flow-control benches: a publisher with only a window, and consumers with a fixed rate."""

import selectors
import socket
import struct
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from protocol.acknowledgements import Puback
from protocol.connect import Connect
from protocol.decoder import Decoder
from protocol.publish import Publish, encode_publish
from tests.support.process import Address
from tests.support.wire import WireClient

READ: Final = 65_536
LATE: Final = 0.1
"""Seconds that a consumer with a rate catches up if the machine has not scheduled it."""
STAMP: Final = struct.Struct(">Q")
"""The beginning of a payload: the number of the message."""


class FlowClient:
    """One MQTT 5 connection that a `Loop` serves; it never blocks."""

    def __init__(self, address: Address, connect: Connect | None = None) -> None:
        """`connect`: it is only sent, and its CONNACK comes with the other packets; None = the client is connected."""
        self.wire = WireClient(address, 5)
        if connect is None:
            self.wire.connect()
        else:
            self.wire.send(connect)
        self.socket: socket.socket = self.wire.socket
        self._decoder = Decoder(version=5)
        self._unsent = bytearray()

    def start(self) -> None:
        """Let the loop read it."""
        self.socket.setblocking(False)

    @property
    def stuck(self) -> bool:
        """Whether the broker does not read what was written."""
        return len(self._unsent) > 0

    def write(self, data: bytes) -> None:
        """Write, at once or when the socket has room."""
        self._unsent += data
        self.flush()

    def flush(self) -> None:
        """Write what the socket had no room for."""
        if self._unsent:
            try:
                sent = self.socket.send(self._unsent)
            except BlockingIOError:
                return
            del self._unsent[:sent]

    def read(self) -> Iterable[object]:
        """Return the packets that have arrived."""
        try:
            data = self.socket.recv(READ)
        except BlockingIOError:
            return
        if not data:
            raise ConnectionError("closed by the broker")
        self._decoder.feed(data)
        while (packet := self._decoder.next_packet()) is not None:
            yield packet

    def on_packets(self, now: float) -> None:
        """Packets have arrived."""
        raise NotImplementedError

    def turn(self, now: float) -> None:
        """Do what is due."""


class Producer(FlowClient):
    """Publishes QoS 1 as fast as its window allows, and while `may_go` is true."""

    def __init__(self, address: Address, topic: str, size: int, window: int, may_go: Callable[[int], bool]) -> None:
        super().__init__(address)
        self.sent = 0
        self.acknowledged = 0
        self.going = True
        self._topic = topic.encode()
        self._padding = bytes(size - STAMP.size)
        self._window = window
        self._may_go = may_go

    def on_packets(self, now: float) -> None:
        """Count the PUBACKs; they come in order."""
        for packet in self.read():
            if not isinstance(packet, Puback) or packet.reason_code >= 0x80:
                raise ConnectionError(f"the publisher was answered {packet!r}")
            self.acknowledged += 1

    def turn(self, now: float) -> None:
        """Publish what may be sent."""
        packets: list[bytes] = []
        while self.going and not self.stuck and self.sent - self.acknowledged < self._window and len(packets) < 64:
            if not self._may_go(self.sent):
                break
            payload = STAMP.pack(self.sent) + self._padding
            packet_id = self.sent % 65_535 + 1
            packets.append(encode_publish(self._topic, payload, 1, False, False, packet_id, None, 5))
            self.sent += 1
        if packets:
            self.write(b"".join(packets))


class Consumer(FlowClient):
    """Subscribes at QoS 1, and acknowledges `per_second` messages a second; 0 = at once."""

    def __init__(self, address: Address, topic_filter: str, per_second: float = 0.0) -> None:
        super().__init__(address)
        self.wire.subscribe(topic_filter, qos=1)
        self.numbers: list[int] = []
        """The messages that it has acknowledged."""
        self.per_second = per_second
        self._waiting: deque[Publish] = deque()
        self._free_at = 0.0

    def on_packets(self, now: float) -> None:
        """Queue the messages that have arrived."""
        for packet in self.read():
            if not isinstance(packet, Publish):
                raise ConnectionError(f"the consumer has received {packet!r}")
            self._waiting.append(packet)

    def turn(self, now: float) -> None:
        """Acknowledge the messages that are due, one after the other."""
        waiting = self._waiting
        answers = []
        while waiting and (not self.per_second or self._free_at <= now):
            packet = waiting.popleft()
            self.numbers.append(STAMP.unpack_from(packet.payload)[0])
            answers.append(b"\x40\x02" + int(packet.packet_id).to_bytes(2, "big"))
            if self.per_second:
                self._free_at = max(self._free_at, now - LATE) + 1 / self.per_second
        if answers:
            self.write(b"".join(answers))


class Loop:
    """Serves clients in one thread."""

    def __init__(self, clients: Iterable[FlowClient], step: float = 0.001) -> None:
        self._clients = list(clients)
        self._step = step
        self._selector = selectors.DefaultSelector()
        for client in self._clients:
            client.start()
            self._selector.register(client.socket, selectors.EVENT_READ, client)

    def run(self, seconds: float, enough: Callable[[], bool] = lambda: False) -> None:
        """Serve them for so long, or until `enough`."""
        until = time.perf_counter() + seconds
        while (now := time.perf_counter()) < until and not enough():
            for client in self._clients:
                client.flush()
                client.turn(now)
            for key, _ in self._selector.select(self._step):
                key.data.on_packets(time.perf_counter())

    def close(self) -> None:
        """Close all connections."""
        self._selector.close()
        for client in self._clients:
            client.wire.close()
