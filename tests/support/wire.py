"""A client at the level of packets: a blocking socket, our own codec, and nothing that happens by itself.

For what real clients hide or refuse to do: exact packets, wrong packets, packets withheld.
"""

import itertools
import socket
import ssl
import struct
import time
from types import TracebackType
from typing import Any, Self, TypeVar

from protocol.acknowledgements import Puback, Pubcomp, Pubrec, Pubrel
from protocol.connack import Connack
from protocol.connect import Connect, Will
from protocol.decoder import Decoder
from protocol.disconnect import Disconnect
from protocol.packet import Packet
from protocol.ping import Pingreq, Pingresp
from protocol.properties import Properties
from protocol.publish import Publish, encode_publish
from protocol.suback import Suback
from protocol.subscribe import Subscribe, Subscription
from protocol.unsuback import Unsuback
from protocol.unsubscribe import Unsubscribe
from tests.support.process import Address

READ_BYTES = 65536

P = TypeVar("P", bound=Packet)


class WireClient:
    """One connection. Every wait ends with TimeoutError after `timeout` seconds."""

    _numbers = itertools.count(1)

    def __init__(
        self,
        address: Address,
        version: int = 4,
        *,
        timeout: float = 20.0,
        tls: ssl.SSLContext | None = None,
        receive_buffer: int = 0,
        source: str = "",
        first: bytes = b"",
    ) -> None:
        """`source`: our own IP address; `first`: what is sent before anything else, as proxies do."""
        unix = address.host.startswith("/")
        family = socket.AF_UNIX if unix else socket.AF_INET6 if ":" in address.host else socket.AF_INET
        self.version = version
        self.timeout = timeout
        self.socket = socket.socket(family, socket.SOCK_STREAM)
        if receive_buffer:
            # Small from the start: the size is part of the TCP handshake.
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(timeout)
        try:
            if source:
                self.socket.bind((source, 0))
            self.socket.connect(address.host if unix else address)
            self.socket.sendall(first)
        except OSError:
            self.socket.close()
            raise
        if not unix:
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_hostname=address.host)
        self._decoder = Decoder(version=version)
        self._packet_ids = itertools.cycle(range(1, 65536))

    def send(self, *items: Packet | bytes) -> None:
        """Send packets, or bytes as they are, in one write."""
        self.socket.sendall(b"".join(i if isinstance(i, bytes) else i.encode(self.version) for i in items))

    def receive(self) -> Packet:
        """Return the next packet; ConnectionError if the broker closed instead."""
        deadline = time.monotonic() + self.timeout
        while (packet := self._decoder.next_packet()) is None:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"no packet within {self.timeout:g} s")
            self.socket.settimeout(left)
            data = self.socket.recv(READ_BYTES)
            if not data:
                raise ConnectionError("closed by the broker")
            self._decoder.feed(data)
        return packet

    def expect(self, kind: type[P]) -> P:
        """Return the next packet, which has to be of this class."""
        packet = self.receive()
        assert isinstance(packet, kind), f"expected {kind.__name__}, received {packet!r}"
        return packet

    def expect_close(self) -> Packet | None:
        """Wait until the broker closes; return the last packet that came before, such as a DISCONNECT."""
        packets = self.until_close()
        return packets[-1] if packets else None

    def until_close(self) -> list[Packet]:
        """Return what comes until the broker closes."""
        packets: list[Packet] = []
        try:
            while True:
                packets.append(self.receive())
        except ConnectionError:
            return packets

    def expect_nothing_more(self) -> None:
        """Make sure that nothing is on its way to us: the answer to a ping is the next packet, twice.

        A broker may answer the first before it has written what was routed just before.
        """
        for _ in range(2):
            self.send(Pingreq())
            self.expect(Pingresp)

    def connect(
        self,
        client_id: str | None = None,
        *,
        clean_start: bool = True,
        keep_alive: int = 0,
        will: Will | None = None,
        properties: Properties | None = None,
    ) -> Connack:
        """Send CONNECT, with a client id of its own if none is given, and return the CONNACK."""
        name = f"wire-{next(self._numbers)}" if client_id is None else client_id
        connect = Connect(name, clean_start, keep_alive, will=will, properties=properties, version=self.version)
        self.send(connect)
        return self.expect(Connack)

    def subscribe(self, *filters: str, qos: int = 0, properties: Properties | None = None) -> Suback:
        """Subscribe to all filters with one packet and return the SUBACK."""
        wanted = [Subscription(topic_filter, qos) for topic_filter in filters]
        self.send(Subscribe(self.packet_id(), wanted, properties))
        return self.expect(Suback)

    def unsubscribe(self, *filters: str) -> Unsuback:
        """Unsubscribe from all filters with one packet and return the UNSUBACK."""
        self.send(Unsubscribe(self.packet_id(), list(filters)))
        return self.expect(Unsuback)

    def publish(
        self,
        topic: str,
        payload: bytes = b"",
        qos: int = 0,
        *,
        retain: bool = False,
        properties: Properties | None = None,
    ) -> int:
        """Send a PUBLISH and, with QoS 1 and 2, carry the exchange to its end. Returns the reason code; 0 at QoS 0."""
        packet_id = self.packet_id() if qos else 0
        self.send(encode_publish(topic.encode(), payload, qos, retain, False, packet_id, properties, self.version))
        if qos == 0:
            return 0
        answer = self.expect(Puback if qos == 1 else Pubrec)
        assert answer.packet_id == packet_id
        if qos == 2:
            self.send(Pubrel(packet_id))
            assert self.expect(Pubcomp).packet_id == packet_id
        return answer.reason_code

    def receive_message(self) -> Publish:
        """Return the next message; with QoS 1 and 2 carry the exchange to its end."""
        message = self.expect(Publish)
        self.finish(message)
        return message

    def finish(self, message: Publish) -> None:
        """Carry the exchange of a message that has come to its end."""
        if message.qos == 1:
            self.send(Puback(message.packet_id))
        elif message.qos == 2:
            self.send(Pubrec(message.packet_id))
            assert self.expect(Pubrel).packet_id == message.packet_id
            self.send(Pubcomp(message.packet_id))

    def packet_id(self) -> int:
        """Return the next packet id of this connection."""
        return next(self._packet_ids)

    def disconnect(self, reason_code: int = 0, properties: Properties | None = None) -> None:
        """Take leave properly and close."""
        self.send(Disconnect(reason_code, properties))
        self.close()

    def reset(self) -> None:
        """Close with a TCP reset, as after a crash: no FIN, no DISCONNECT."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()

    def close(self) -> None:
        """Close the socket without a word."""
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def connected(address: Address, version: int = 4, **options: Any) -> WireClient:
    """Return a client whose CONNECT has been accepted; `options` are those of WireClient.connect."""
    client = WireClient(address, version)
    connack = client.connect(**options)
    assert connack.reason_code == 0, connack
    return client
