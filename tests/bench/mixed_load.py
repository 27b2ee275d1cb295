"""The load of the demo: QoS 0, 1 and 2 mixed, to a subscriber that keeps up and one that is slow at times."""

import selectors
import socket
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from protocol.acknowledgements import Pubcomp, Pubrec, Pubrel
from protocol.decoder import Decoder
from protocol.packet import Packet
from protocol.publish import Publish, encode_publish
from tests.support.process import Address
from tests.support.wire import WireClient

TOPIC = "plant/line1/sensors"
RECEIVE_BUFFER = 65_536
"""Bytes of the slow reader's socket buffer: it is small, so that undrained bytes wait in the broker."""
STEP = 0.01
"""Seconds between two turns of the publisher."""


@dataclass(frozen=True)
class Plan:
    """Rates are messages a second; the slow reader's is bytes a second while it is slow."""

    seconds: float = 40.0
    half_period: float = 5.0
    payload: int = 512
    qos0_rate: int = 4000
    qos1_rate: int = 30
    qos2_rate: int = 15
    slow_bytes: int = 400_000


class Reader(threading.Thread):
    """Subscribes at QoS 2 and acknowledges; while `slow`, it reads at the plan's rate."""

    def __init__(self, address: Address, name: str, plan: Plan, receive_buffer: int = 0) -> None:
        super().__init__(name=name, daemon=True)
        self.slow = False
        self.received = [0, 0, 0]
        self._plan = plan
        self._stopping = threading.Event()
        self._client = WireClient(address, 5, receive_buffer=receive_buffer)
        self._client.connect(name)
        self._client.subscribe(TOPIC, qos=2)

    def run(self) -> None:
        """Read until stopped; the socket's timeout lets it check for that."""
        sock = self._client.socket
        sock.settimeout(0.2)
        decoder = Decoder(version=5)
        while not self._stopping.is_set():
            chunk = 4096 if self.slow else 65_536
            try:
                data = sock.recv(chunk)
            except TimeoutError:
                continue
            decoder.feed(data)
            answers = []
            while (packet := decoder.next_packet()) is not None:
                answers.append(self._answer(packet))
            sock.sendall(b"".join(answers))
            if self.slow:
                self._stopping.wait(len(data) / self._plan.slow_bytes)

    def stop(self) -> None:
        """Stop, and disconnect."""
        self._stopping.set()
        self.join()
        self._client.close()

    def _answer(self, packet: Packet) -> bytes:
        if isinstance(packet, Publish):
            self.received[packet.qos] += 1
            head = (b"", b"\x40\x02", b"\x50\x02")[packet.qos]
            return head + int(packet.packet_id).to_bytes(2, "big") if head else b""
        if isinstance(packet, Pubrel):
            return b"\x70\x02" + packet.packet_id.to_bytes(2, "big")
        return b""


class Writer(threading.Thread):
    """Publishes the mix at a steady rate, and completes its QoS 2 exchanges."""

    def __init__(self, address: Address, plan: Plan) -> None:
        super().__init__(name="writer", daemon=True)
        self._plan = plan
        self._client = WireClient(address, 5)
        self._client.connect("writer")
        self._packet_id = 0
        self._stopping = threading.Event()

    def run(self) -> None:
        """Publish for as long as the plan says, or until stopped."""
        plan = self._plan
        sock = self._client.socket
        decoder = Decoder(version=5)
        sent = [0, 0, 0]
        rates = (plan.qos0_rate, plan.qos1_rate, plan.qos2_rate)
        start = time.monotonic()
        with selectors.DefaultSelector() as selector:
            selector.register(sock, selectors.EVENT_READ)
            while (elapsed := time.monotonic() - start) < plan.seconds and not self._stopping.is_set():
                batch = []
                for qos, rate in enumerate(rates):
                    while sent[qos] < elapsed * rate:
                        batch.append(self._publish(qos))
                        sent[qos] += 1
                sock.sendall(b"".join(batch))
                if selector.select(STEP):
                    decoder.feed(sock.recv(65_536))
                    while (packet := decoder.next_packet()) is not None:
                        self._complete(sock, packet)
        self._client.close()

    def stop(self) -> None:
        """Stop before the plan's time, and disconnect."""
        self._stopping.set()
        self.join()

    def _publish(self, qos: int) -> bytes:
        if qos:
            self._packet_id = self._packet_id % 65_535 + 1
        return encode_publish(
            TOPIC.encode(), bytes(self._plan.payload), qos, False, False, self._packet_id if qos else 0, None, 5
        )

    @staticmethod
    def _complete(sock: socket.socket, packet: Packet) -> None:
        if isinstance(packet, Pubrec):
            sock.sendall(b"\x62\x02" + packet.packet_id.to_bytes(2, "big"))
        elif not isinstance(packet, Pubcomp) and type(packet).__name__ == "Disconnect":
            raise ConnectionError("the broker has sent the publisher away")


def drive(address: Address, plan: Plan) -> dict[str, list[int]]:
    """Run the load to its end; returns how much each reader received, by QoS."""
    well = Reader(address, "reads-well", plan)
    slow = Reader(address, "reads-slowly", plan, RECEIVE_BUFFER)
    writer = Writer(address, plan)
    for thread in (well, slow, writer):
        thread.start()
    turn = threading.Event()
    while writer.is_alive():
        turn.wait(plan.half_period)
        slow.slow = not slow.slow
    slow.slow = False
    well.stop()
    slow.stop()
    return {"reads-well": well.received, "reads-slowly": slow.received}


def metrics_sections(directory: Path) -> dict[str, object]:
    """The configuration of the demo beside its defaults: metrics every second."""
    return {"metrics": {"directory": str(directory), "interval": "1s"}}
