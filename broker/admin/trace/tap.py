"""Listens in on one connection: it stands between the connection and its transport while a trace runs."""

from time import perf_counter
from typing import TYPE_CHECKING, Any, cast

from broker.admin.trace.framing import Framing, decode, packet_id_of, topic_of
from broker.admin.trace.watched import Decision, WatchedReading
from broker.bridge.incoming import Incoming
from broker.connection.client_socket import ClientSocket
from broker.connection.connection import Connection
from protocol import properties as props
from protocol.acknowledgements import Puback, Pubcomp, Pubrec, Pubrel
from protocol.connect import Connect
from protocol.packet import Packet
from protocol.packet_types import PUBACK, PUBCOMP, PUBLISH, PUBREC, PUBREL
from protocol.publish import Publish

if TYPE_CHECKING:
    import asyncio

    from broker.admin.trace.trace import Trace

_ROUTED_OTHERWISE = {"refused", "parked", "paged", "discarded"}
_ACKNOWLEDGING = (PUBACK, PUBREC, PUBREL, PUBCOMP)


class Tap:
    """The protocol of a connection's transport, and what the connection writes to."""

    def __init__(self, socket: ClientSocket, trace: "Trace") -> None:
        self.socket = socket
        self.connection = connection = socket.connection
        self.reading = WatchedReading(connection)
        self.told = trace.wanted.topic_filter is None
        """Whether anything of it is shown: then the reasons why it is not read are, too."""
        self._trace = trace
        self._outgoing: _Outgoing | None = None
        self._from_client = Framing()
        self._to_client = Framing()
        self._aliases: dict[int, bytes] = {}
        self._ids_in: set[int] = set()
        self._ids_out: set[int] = set()

    def attach(self) -> None:
        """Begin; packets that have been received and are not handled yet are not shown."""
        transport = self.socket.transport
        if transport is None or self.connection.gate.closed:
            return
        self._from_client.split(self.connection.decoder.held())
        self._outgoing = _Outgoing(transport, self)
        transport.set_protocol(cast("asyncio.Protocol", self))
        self.socket.transport = cast("asyncio.Transport", self._outgoing)

    def detach(self) -> None:
        """End: the connection has its transport again."""
        outgoing, self._outgoing = self._outgoing, None
        if outgoing is not None and self.socket.transport is cast("asyncio.Transport", outgoing):
            self.socket.transport = outgoing.transport
            outgoing.transport.set_protocol(cast("asyncio.Protocol", self.socket))

    # -- what the transport calls

    def data_received(self, data: bytes) -> None:
        """Hand on what comes; packets that are shown one by one, so that what happens is that packet's doing."""
        if self._outgoing is None:
            self.socket.data_received(data)
            return
        began = perf_counter()
        others: list[bytes] = []
        for part, whole in self._from_client.split(data):
            packet = self._decoded(whole, True)
            if packet is None or not self._wants(packet, True):
                others.append(part)
                continue
            if others:
                self._hand_on(b"".join(others))
                others.clear()
            self._receive(part, packet)
        if others:
            self._hand_on(b"".join(others))
        self._trace.took += perf_counter() - began

    def _hand_on(self, data: bytes) -> None:
        """What the connection does then is not the trace's time."""
        began = perf_counter()
        self.socket.data_received(data)
        self._trace.took -= perf_counter() - began

    def eof_received(self) -> bool:
        """The client sends no more."""
        return self.socket.eof_received()

    def connection_lost(self, error: Exception | None) -> None:
        """The connection is closed."""
        self.socket.connection_lost(error)
        if self.told:
            self._trace.tell(self, "closed", text=self.connection.why)
        self._trace.forget(self)

    def pause_writing(self) -> None:
        """The send path is congested."""
        self.socket.pause_writing()
        self._say([("congested", "the client or its network is slow: the send path is congested (FC-3)")])

    def resume_writing(self) -> None:
        """It is no longer."""
        self._say([("drained", "the send path is no longer congested")])
        self.socket.resume_writing()

    # -- what the connection writes

    def sent(self, data: bytes) -> None:
        """Show what is about to be written."""
        if self._outgoing is None:
            return
        began = perf_counter()
        for _, whole in self._to_client.split(data):
            packet = self._decoded(whole, False)
            if packet is not None and self._wants(packet, False):
                self._trace.tell_packet(self, "sent", packet, self._topic(packet, False))
        self._trace.took += perf_counter() - began

    # -- internal

    def _decoded(self, whole: bytes | None, incoming: bool) -> Packet | str | None:
        """The packet, or what is wrong with it; None if it is not whole or, at a glance, not what is looked for."""
        if whole is None or not self._may_concern(whole, incoming):
            return None
        return decode(whole, self.connection.decoder.version or 4)

    def _may_concern(self, whole: bytes, incoming: bool) -> bool:
        """Whether it is worth decoding: a trace of a topic sees all packets of all connections, and shows few."""
        if self._trace.wanted.topic_filter is None:
            return True
        kind = whole[0] >> 4
        if kind == PUBLISH:
            topic = topic_of(whole)
            return not topic or self._trace.concerns(topic)
        if kind not in _ACKNOWLEDGING:
            return False
        packet_id = packet_id_of(whole)
        return packet_id is None or packet_id in self._ids(kind == PUBREL, incoming)

    def _ids(self, is_release: bool, incoming: bool) -> set[int]:
        """The packet ids that are shown: of messages that the client has sent, or of deliveries to it."""
        return self._ids_in if incoming is is_release else self._ids_out

    def _receive(self, part: bytes, packet: Packet | str) -> None:
        trace, connection = self._trace, self.connection
        topic = self._topic(packet, True)
        if isinstance(packet, Connect) and not trace.wanted.is_about_client(packet.client_id):
            self.told = False
            self._hand_on(part)
            trace.connected(self)
            return
        self.told = True
        event = "acknowledged" if isinstance(packet, Puback | Pubrec | Pubcomp) else "received"
        trace.tell_packet(self, event, packet, topic)
        watched = None if connection.client is None else trace.watch(connection.client)
        name, session = _name_here(connection, topic), connection.session
        if isinstance(packet, Publish):
            trace.watch_receivers(name)
        before = _received(connection)
        self._hand_on(part)
        if isinstance(packet, Publish) and connection.session is not None:
            decisions = [] if watched is None else watched.look()
            self._say(decisions)
            if not _ROUTED_OTHERWISE.intersection(event for event, _ in decisions):
                handled = _received(connection) > before
                where = trace.routed(name, None if session is None else session.outbound)
                self._say([where if handled else ("waits", "it is not handled yet, or is a duplicate")])
        if isinstance(packet, Connect):
            trace.connected(self)

    def _say(self, decisions: list[Decision]) -> None:
        if self.told and self._outgoing is not None:
            for event, text in decisions:
                self._trace.tell(self, event, text=text)

    def _topic(self, packet: Packet | str, incoming: bool) -> bytes:
        if not isinstance(packet, Publish):
            return b""
        alias = (packet.properties or {}).get(props.TOPIC_ALIAS)
        if not isinstance(alias, int):
            return packet.topic
        received = self.connection.aliases
        known = self._aliases if not incoming else {} if received is None else received.topics
        if packet.topic and not incoming:
            self._aliases[alias] = packet.topic
        return packet.topic or known.get(alias, b"")

    def _wants(self, packet: Packet | str, incoming: bool) -> bool:
        """Whether it is shown: all packets, or the PUBLISHes to some topics and what acknowledges them."""
        if not self._trace.active:
            return False
        if self._trace.wanted.topic_filter is None:
            return self.told
        if isinstance(packet, Publish):
            wanted = self._trace.wanted
            if not wanted.is_about_topic(self._topic(packet, incoming)) or not wanted.is_about(self.connection):
                return False
            (self._ids_in if incoming else self._ids_out).add(packet.packet_id)
            return True
        ids = self._ids(isinstance(packet, Pubrel), incoming)
        return isinstance(packet, Puback | Pubrec | Pubrel | Pubcomp) and packet.packet_id in ids


class _Outgoing:
    """The transport, for the connection; what it writes is shown."""

    def __init__(self, transport: "asyncio.Transport", tap: Tap) -> None:
        self.transport = transport
        self._tap = tap

    def write(self, data: bytes) -> None:
        """Show and write it."""
        self._tap.sent(data)
        self.transport.write(data)

    def writelines(self, pieces: list[bytes]) -> None:
        """Show and write them."""
        self._tap.sent(b"".join(pieces))
        self.transport.writelines(pieces)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.transport, name)


def _name_here(connection: Connection, topic: bytes) -> bytes:
    """The topic that a message is routed by: over a bridge it may have another name than here."""
    publishing = connection.handlers.publishing
    return publishing.topics.incoming.name(topic) if isinstance(publishing, Incoming) else topic


def _received(connection: Connection) -> int:
    """PUBLISHes that have been handled."""
    if connection.session is None:
        return 0
    counters = connection.session.counters
    return counters.received_qos0 + counters.received_qos1 + counters.received_qos2
