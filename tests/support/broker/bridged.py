"""Brokers with bridges between them, and a remote broker of which the test decides what it says."""

import os
import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from protocol.acknowledgements import Puback, Pubcomp, Pubrec, Pubrel
from protocol.connack import Connack
from protocol.connect import Connect
from protocol.decoder import Decoder
from protocol.packet import Packet
from protocol.ping import Pingreq, Pingresp
from protocol.properties import Properties
from protocol.publish import Publish
from protocol.suback import Suback
from protocol.subscribe import Subscribe
from tests.support.broker.reloads import rewrite
from tests.support.brokers import HOST, start_sluice
from tests.support.process import Address, BrokerProcess, free_port
from tests.support.wire import connected

P = TypeVar("P", bound=Packet)

SOON: Final = {"reconnect_min": "100ms", "reconnect_max": "200ms"}
"""Keys of a bridge that tries again at once."""


OUT: Final[dict[str, Any]] = {"filter": "out/#"}
IN: Final[dict[str, Any]] = {"filter": "in/#", "direction": "in"}


class RemoteConnection:
    """One connection that a bridge has opened, at the level of packets."""

    def __init__(self, accepted: socket.socket) -> None:
        self.socket = accepted
        self.socket.settimeout(20)
        self._decoder = Decoder()
        self.connect = self.expect(Connect)
        self.version = self.connect.version

    def send(self, *items: Packet | bytes) -> None:
        """Send packets, or bytes as they are."""
        self.socket.sendall(b"".join(item if isinstance(item, bytes) else item.encode(self.version) for item in items))

    def receive(self) -> Packet:
        """The next packet but PINGREQ, which is answered; ConnectionError if the bridge has closed."""
        while True:
            packet = self._decoder.next_packet()
            if packet is None:
                data = self.socket.recv(65_536)
                if not data:
                    raise ConnectionError("closed by the bridge")
                self._decoder.feed(data)
            elif isinstance(packet, Pingreq):
                self.send(Pingresp())
            else:
                return packet

    def expect(self, kind: type[P]) -> P:
        """The next packet, which has to be of this class."""
        packet = self.receive()
        assert isinstance(packet, kind), f"expected {kind.__name__}, received {packet!r}"
        return packet

    def accept(self, session_present: bool = False, properties: Properties | None = None, filters: int = 0) -> None:
        """Answer CONNECT, and this many SUBSCRIBEs."""
        self.send(Connack(session_present, 0, properties if self.version == 5 else None))
        for _ in range(filters):
            packet = self.expect(Subscribe)
            self.send(Suback(packet.packet_id, [each.qos for each in packet.subscriptions]))

    def take(self, count: int) -> list[Publish]:
        """Take so many messages, and acknowledge them, to the end of the exchange."""
        taken: list[Publish] = []
        under_way = 0
        while len(taken) < count or under_way:
            packet = self.receive()
            if isinstance(packet, Publish):
                taken.append(packet)
                if packet.qos == 1:
                    self.send(Puback(packet.packet_id))
                elif packet.qos == 2:
                    under_way += 1
                    self.send(Pubrec(packet.packet_id))
            elif isinstance(packet, Pubrel):
                under_way -= 1
                self.send(Pubcomp(packet.packet_id))
        return taken

    def until_close(self) -> list[Packet]:
        """What comes until the bridge closes."""
        packets: list[Packet] = []
        try:
            while True:
                packets.append(self.receive())
        except ConnectionError:
            return packets

    def close(self) -> None:
        """Close without a word."""
        self.socket.close()


class Remote:
    """A remote broker that does what the test says."""

    def __init__(self) -> None:
        self._socket = socket.create_server((HOST, 0))
        self._socket.settimeout(20)
        self._open: list[RemoteConnection | socket.socket] = []
        self.address = f"{HOST}:{self._socket.getsockname()[1]}"

    def next(self) -> RemoteConnection:
        """The next connection of a bridge, with its CONNECT."""
        connection = RemoteConnection(self._socket.accept()[0])
        self._open.append(connection)
        return connection

    def silent(self) -> socket.socket:
        """The next connection of a bridge, which gets no answer."""
        connection = self._socket.accept()[0]
        self._open.append(connection)
        return connection

    def accepted(self, **options: Any) -> RemoteConnection:
        """The next connection, accepted; `options` are those of RemoteConnection.accept."""
        connection = self.next()
        connection.accept(**options)
        return connection

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections, and accept no others."""
        for connection in self._open:
            connection.close()
        self._socket.close()


def bridge(remote: Remote, *topics: dict[str, Any], **keys: Any) -> dict[str, Any]:
    """The section `bridges` with one of them."""
    own = {"name": "up", "address": remote.address, "topics": list(topics) or [OUT]}
    return {"bridges": [own | SOON | keys]}


def publish(broker: BrokerProcess, topic: str, *payloads: bytes, qos: int = 1, version: int = 5, **more: Any) -> None:
    """Publish here."""
    with connected(broker.address(), version) as client:
        for payload in payloads:
            client.publish(topic, payload, qos, **more)


class Ring:
    """Brokers on fixed ports, which can be killed and started again, with bridges between them."""

    def __init__(self, folder: Path, names: str) -> None:
        self._folder = folder
        self._ports = {name: free_port() for name in names}
        self._running: dict[str, tuple[ExitStack, BrokerProcess]] = {}

    def address(self, name: str) -> Address:
        """Where a broker is."""
        return Address(HOST, self._ports[name])

    def at(self, name: str) -> str:
        """The same, for `bridges[].address`."""
        return f"{HOST}:{self._ports[name]}"

    def start(self, name: str, *bridges: dict[str, Any], journal: bool = False, **sections: Any) -> BrokerProcess:
        """Start a broker, in place of the one of this name if that is still there."""
        self.stop(name)
        folder = self._folder / name
        folder.mkdir(exist_ok=True)
        own: dict[str, Any] = {"node_name": name, "listeners": [{"name": "tcp", "bind": self.at(name)}]}
        own["bridges"] = [SOON | each for each in bridges]
        if journal:
            own["persistence"] = {"directory": str(folder / "journal")}
        stack = ExitStack()
        broker = stack.enter_context(start_sluice(folder, sections=own | sections))
        self._running[name] = (stack, broker)
        return broker

    def reload(self, name: str, *bridges: dict[str, Any], **sections: Any) -> None:
        """Have a broker read its configuration again, which has these bridges and sections now."""
        broker = self.broker(name)
        rewrite(broker, bridges=[SOON | each for each in bridges], **sections)
        before = broker.stderr.count('"reloaded"')
        os.kill(broker.pid, signal.SIGHUP)
        broker.wait_for_output(lambda lines: sum('"reloaded"' in line for line in lines) > before, "the reload")

    def broker(self, name: str) -> BrokerProcess:
        """A broker that runs."""
        return self._running[name][1]

    def stop(self, name: str) -> None:
        """Stop a broker in order; it has to be healthy."""
        running = self._running.pop(name, None)
        if running is not None:
            running[0].close()

    def kill(self, name: str) -> None:
        """End a broker by SIGKILL."""
        stack, broker = self._running.pop(name)
        broker.ask_to_end(signal.SIGKILL)
        stack.close()

    def stop_all(self) -> None:
        """Stop those that run."""
        for name in list(self._running):
            self.stop(name)


@contextmanager
def ring(folder: Path, names: str) -> Iterator[Ring]:
    """Brokers with these names of one letter."""
    made = Ring(folder, names)
    try:
        yield made
    finally:
        made.stop_all()
