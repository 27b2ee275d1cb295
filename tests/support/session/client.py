"""A model of the client: what it has received, what it may get, and the effect of its acknowledgements."""

from collections.abc import Container, Iterable
from typing import Final

from protocol import packet_types
from protocol.acknowledgements import Pubrel
from protocol.packet import Packet
from protocol.properties import MESSAGE_EXPIRY_INTERVAL
from protocol.publish import Publish
from tests.support.session.books import Books
from tests.support.session.messages import SECOND, text_of

FAILED: Final = 0x80


class Received:
    """A QoS 1 or 2 delivery that the client has got and not completed."""

    def __init__(self, publish: Publish, text: str) -> None:
        self.publish = publish
        self.text = text
        self.released = False
        """Whether the client has answered PUBREC."""

    def takes(self, packet_type: int) -> bool:
        """Whether this kind of acknowledgement may answer it now, again perhaps."""
        if self.publish.qos == 1:
            return packet_type == packet_types.PUBACK
        return packet_type == packet_types.PUBREC or (packet_type == packet_types.PUBCOMP and self.released)

    def fits(self, version: int, limit: int) -> bool:
        """Whether the PUBLISH may be sent to a client of that version and Maximum Packet Size."""
        return limit == 0 or len(self.publish.encode_resent(version, 1, -1)) <= limit


class Client:
    """Fails on whatever a client must never see."""

    def __init__(self, books: Books) -> None:
        self.books = books
        self.version = 4
        self.receive_maximum = 0
        self.inflight: dict[int, Received] = {}
        """By packet id, over all connections."""
        self.let_go: set[int] = set()
        """Packet ids of what is too large for this connection: once it is their turn, the session lets them go."""
        self.to_resend: list[int] = []
        """Packet ids that are to be resent on this connection before anything new, in this order."""
        self.out: set[int] = set()
        """Packet ids that came as PUBLISH on this connection and are not completed."""
        self._messages: dict[str, Publish] = {}
        self.newest = [-1, -1]
        """The highest number among first transmissions of QoS 0, and of QoS 1 and 2."""
        self._last: dict[tuple[bytes, int], int] = {}

    def expect(self, text: str, publish: Publish) -> None:
        """`publish` has been handed to the session."""
        self._messages[text] = publish
        self.books.routed[publish.qos] += 1

    def connect(self, version: int, receive_maximum: int, maximum_packet_size: int) -> None:
        """A new connection begins."""
        self.version = version
        self.receive_maximum = receive_maximum
        self.out = set()
        self.let_go = {
            packet_id
            for packet_id, received in self.inflight.items()
            if not received.released and not received.fits(version, maximum_packet_size)
        }
        self.to_resend = [packet_id for packet_id in self.inflight if packet_id not in self.let_go]

    def forget(self, kept: Container[int]) -> None:
        """`kept` is what the session's window holds: what is too large and not among it is over."""
        for packet_id in self.let_go.copy():
            if packet_id not in kept:
                self.let_go.remove(packet_id)
                del self.inflight[packet_id]

    def acknowledge(self, packet_type: int, packet_id: int, reason_code: int) -> None:
        """Note what an acknowledgement means, right or wrong, before it is sent."""
        received = self.inflight.get(packet_id)
        if received is None:
            return
        qos = received.publish.qos
        if packet_type == packet_types.PUBREC and qos == 2 and reason_code < FAILED:
            received.released = True
            if packet_id in self.let_go:  # the PUBREL that it comes to instead is not too large
                self.let_go.remove(packet_id)
                self.to_resend = [held for held in self.inflight if held == packet_id or held in self.to_resend]
        elif (
            (packet_type == packet_types.PUBACK and qos == 1)
            or (packet_type == packet_types.PUBREC and qos == 2)
            or (packet_type == packet_types.PUBCOMP and received.released)
        ):
            del self.inflight[packet_id]
            self.out.discard(packet_id)
            self.let_go.discard(packet_id)
            if packet_id in self.to_resend:
                self.to_resend.remove(packet_id)
            self.books.completed[qos] += 1

    def receive(self, packets: Iterable[Packet], now: int, answered: int = 0) -> None:
        """Check what has come at `now`; the first PUBREL for `answered` answers a PUBREC."""
        for packet in packets:
            if isinstance(packet, Publish):
                self._receive_publish(packet, now)
            elif isinstance(packet, Pubrel):
                if packet.packet_id == answered:
                    answered = 0
                else:
                    self.books.resent_pubrel += 1
                    self._resent(packet.packet_id)
                    assert self.inflight[packet.packet_id].released
        assert answered == 0, "a PUBREC without an answer"

    def _receive_publish(self, packet: Publish, now: int) -> None:
        text = text_of(packet)
        routed = self._messages[text]
        assert (packet.topic, packet.qos, packet.payload) == (routed.topic, routed.qos, routed.payload)
        packet_id = packet.packet_id
        if packet.dup:
            received = self.inflight[packet_id]
            assert received.text == text
            assert not received.released
            assert packet_id not in self.let_go
            self.books.resent_publish += 1
            self._resent(packet_id)
        else:
            self._receive_first(packet, routed, text, now)
        if packet.qos:
            self.out.add(packet_id)
            assert not self.receive_maximum or len(self.out) <= self.receive_maximum

    def _resent(self, packet_id: int) -> None:
        if packet_id in self.to_resend:
            assert self.to_resend.pop(0) == packet_id, "FC-8: not in the order first sent"
        else:
            assert self.version == 4, "FC-8: resent on an MQTT 5 connection"

    def _receive_first(self, packet: Publish, routed: Publish, text: str, now: int) -> None:
        self.books.sent[packet.qos] += 1
        order = (packet.topic, packet.qos)
        assert int(text) > self._last.get(order, -1), "FC-9"
        self._last[order] = int(text)
        together = min(packet.qos, 1)
        self.newest[together] = max(self.newest[together], int(text))
        assert (packet.packet_id != 0) == (packet.qos != 0)
        if routed.expires_at:
            assert now < routed.expires_at
            if self.version == 5:
                assert packet.properties is not None
                assert packet.properties[MESSAGE_EXPIRY_INTERVAL] == -((now - routed.expires_at) // SECOND)
        if packet.qos:
            assert not self.to_resend, "FC-8: new before all is resent"
            assert packet.packet_id not in self.inflight or packet.packet_id in self.let_go
            self.let_go.discard(packet.packet_id)
            self.inflight[packet.packet_id] = Received(routed, text)
