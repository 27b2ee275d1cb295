"""A client of a script: a connection that a LocalBroker reads from as a loop would, and what it has seen."""

from typing import Any

from broker.connection.client_socket import ClientSocket
from protocol import properties as props
from protocol.acknowledgements import Puback, Pubcomp, Pubrec
from protocol.auth import Auth
from protocol.packet import Packet
from tests.fuzz import users
from tests.fuzz.observer import Observer
from tests.support.broker.local import LocalBroker, Transport


class Tcp(Transport):
    """A transport whose sides close one by one; the other kind cannot do that, like some TLS layers."""

    def __init__(self, local: LocalBroker) -> None:
        super().__init__(local.loop)
        self.eof_written = False

    def write(self, data: Any) -> None:
        """Notice who writes when all has been said."""
        self.writes_after_close += self.eof_written
        super().write(data)

    def can_write_eof(self) -> bool:
        """Say so."""
        return True

    def write_eof(self) -> None:
        """The broker has no more to say."""
        self.eof_written = True


class Client:
    """What is done to it after its connection has closed is left out, as the loop would."""

    def __init__(self, local: LocalBroker, *, tls: bool) -> None:
        self._local = local
        self._transport = Transport(local.loop) if tls else Tcp(local)
        self._socket = self._transport.protocol = ClientSocket(local.broker.handlers, "local")
        self._unread = b""
        self._ended = False
        self._deaf = False
        self._left_open = True
        """Neither side has closed, as far as has been looked at."""
        self._by_client = False
        self.observer = Observer(local.broker.settings.max_packet_size)
        local.run(lambda: self._socket.connection_made(self._transport))

    @property
    def open(self) -> bool:
        """Whether anything can still be sent, heard or not."""
        return not (self._transport.closed or self._ended)

    @property
    def refused(self) -> bool:
        """Whether the broker will say no more."""
        transport = self._transport
        return transport.closed or (isinstance(transport, Tcp) and transport.eof_written)

    def send(self, data: bytes) -> None:
        """Send bytes, which are read when the broker reads."""
        if self.open:
            self._unread += data
            self._read()

    def acknowledge(self) -> None:
        """Acknowledge what has been received, up to the next answer that is needed."""
        packets: list[Packet] = []
        for packet_id, waits_for in self.observer.inflight.items():
            kind = (Puback, Pubrec, Pubcomp)[waits_for - 1]
            packets.append(kind(packet_id))
        self.send(b"".join(packet.encode(self.observer.version) for packet in packets))

    def authenticate(self) -> None:
        """Answer the last challenge, if there is one."""
        challenge = self.observer.challenge
        answer = users.client_final(challenge) if challenge is not None else None
        if answer is not None:
            properties: props.Properties = {
                props.AUTHENTICATION_METHOD: users.METHOD,
                props.AUTHENTICATION_DATA: answer,
            }
            self.send(Auth(0x18, properties).encode(5))

    def go_deaf(self) -> None:
        """Read nothing from now on; the send buffer is over its mark at once."""
        if self.open and not self._deaf:
            self._deaf = self._transport.stuck = True
            self._local.run(self._socket.pause_writing)

    def hear(self) -> None:
        """Read all that waits, and whatever comes."""
        if not self._deaf:
            return
        self._deaf = self._transport.stuck = False
        if self._transport.closed:
            self._local.run(self._transport.abort)
            return
        while self._transport.written:
            self.look()
        self._local.run(self._socket.resume_writing)

    def end(self) -> None:
        """Close the client's side; what it has sent before is read first."""
        if self.open:
            self._ended = self._by_client = True
            self._read()

    def lose(self) -> None:
        """The connection breaks."""
        self._by_client = self._by_client or self._left_open
        self._deaf = self._transport.stuck = False
        self._local.run(self._transport.abort)
        self.look()

    def look(self, *, waited: bool = False) -> list[Packet]:
        """Read what the broker has sent, if the client reads, and send on what it had no ear for."""
        transport = self._transport
        assert not transport.writes_after_close, "written after close"
        packets: list[Packet] = []
        if not self._deaf:
            data, transport.written = b"".join(transport.written), []
            if data:
                packets = self.observer.hears(data)
            if self.refused and self._left_open:
                self._left_open = False
                if not self._by_client:
                    self.observer.closed(waited=waited)
        self._read()
        return packets

    def _read(self) -> None:
        """Let the broker read if it wants to."""
        transport = self._transport
        if transport.closed or not transport.reading:
            return
        if self._unread:
            data, self._unread = self._unread, b""
            self.observer.says(data)
            self._local.run(lambda: self._socket.data_received(data))
        if self._ended and not self._unread and transport.reading:
            self._local.run(self._say_end)

    def _say_end(self) -> None:
        """As the loop does it: first the protocol hears of it, then the transport closes."""
        if not self._transport.closed:
            self._socket.eof_received()
            self._transport.close()
