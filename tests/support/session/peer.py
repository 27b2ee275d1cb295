"""The surroundings of one session: the router, the connection and the client."""

from protocol import packet_types
from protocol.decoder import Decoder
from protocol.packet import Packet
from protocol.publish import Publish
from session.counters import Counters
from session.limits import Limits
from session.session import Session
from tests.support.session.host import NotingHost
from tests.support.session.messages import SECOND, message, texts

START = 1_000 * SECOND
"""The clock of a new peer, in microseconds."""

_TOO_MANY_PASSES = 100_000


class Peer:
    """One session with all that it meets, in the order in which the broker does things.

    What the session writes is decoded at once; every method returns the packets that it made the client receive.
    """

    def __init__(
        self,
        limits: Limits | None = None,
        version: int = 4,
        *,
        receive_maximum: int = 0,
        maximum_packet_size: int = 0,
        online: bool = True,
        patience: int = 0,
    ) -> None:
        """`patience`: microseconds of FC-16, which has tests of its own; elsewhere a full queue overflows at once."""
        self.now = START
        self.host = NotingHost()
        limits = limits if limits is not None else Limits()
        limits.overflow_patience = patience
        self.session = Session("c", limits, self.host, self.now)
        self.host.on_let_in = self.route_parked
        self.outbound = self.session.outbound
        self.routed: list[Publish] = []
        """What the client has published and the session has let through to the router."""
        self.packets: list[Packet] = []
        """All that the client has ever received."""
        self._decoder = Decoder(version=version)
        if online:
            self.connect(version, receive_maximum=receive_maximum, maximum_packet_size=maximum_packet_size)

    # -- the router

    def route(self, *deliveries: Publish, publisher: "Peer | None" = None) -> None:
        """Hand deliveries over, as the router does; an offline session stores them at once."""
        outbound = self.outbound
        for publish in deliveries:
            brings = publisher.outbound if publisher is not None else None
            outbound.offer(publish, brings)
            if not outbound.sender.connected:
                outbound.store_offline(self.now)
                self.host.awake = False

    def publish(self, *labels: object, qos: int = 0, topic: str = "t", size: int = 0, expiry: int = 0) -> None:
        """Hand over one message for each label."""
        for label in labels:
            self.route(message(label, qos, topic, size=size, expiry=expiry, now=self.now))

    def deliver(self, *labels: object, qos: int = 0, topic: str = "t", size: int = 0, expiry: int = 0) -> list[str]:
        """Hand over one message for each label and run the session; returns the texts that arrive."""
        self.publish(*labels, qos=qos, topic=topic, size=size, expiry=expiry)
        return texts(self.run())

    # -- the connection

    def connect(self, version: int = 4, *, receive_maximum: int = 0, maximum_packet_size: int = 0) -> list[Packet]:
        """Attach a client, as CONNACK does, and write what that brings up."""
        self._decoder = Decoder(maximum_packet_size, version=version)
        self.session.connect(self.host, version, receive_maximum, maximum_packet_size, self.now)
        return self.flush()

    def disconnect(self) -> None:
        """Lose the connection; the session stays."""
        self.session.disconnect(self.host, self.now)
        self.host.awake = False

    def run_pass(self) -> list[Packet]:
        """One pass, and what it writes."""
        self.outbound.run_pass(self.now)
        return self.flush()

    def run(self) -> list[Packet]:
        """Passes until there is nothing more to do, as the run queue runs them."""
        received: list[Packet] = []
        for _ in range(_TOO_MANY_PASSES):
            more = self.outbound.run_pass(self.now)
            received += self.flush()
            if not more:
                return received
        raise AssertionError("passes without end")

    def flush(self) -> list[Packet]:
        """Write the outbox; returns what the client decodes."""
        self._decoder.feed(b"".join(self.outbound.sender.outbox.take()))
        received: list[Packet] = []
        while (packet := self._decoder.next_packet()) is not None:
            received.append(packet)
        self.packets += received
        return received

    def pause(self) -> None:
        """The transport's buffer is full."""
        self.session.set_congested(True, self.now)

    def resume(self) -> list[Packet]:
        """The transport's buffer has emptied; the connection wakes the session."""
        self.session.set_congested(False, self.now)
        return self.run()

    # -- the client, receiving

    def acknowledge(self, packet_type: int, packet_id: int, reason_code: int = 0) -> list[Packet]:
        """One acknowledgement arrives in a chunk of its own."""
        self.session.sender.acknowledge(packet_type, packet_id, reason_code, self.now)
        return self.end_chunk()

    def puback(self, *packet_ids: int, reason_code: int = 0) -> list[Packet]:
        """PUBACKs arrive in one chunk."""
        for packet_id in packet_ids:
            self.session.sender.acknowledge(packet_types.PUBACK, packet_id, reason_code, self.now)
        return self.end_chunk()

    def pubrec(self, packet_id: int, reason_code: int = 0) -> list[Packet]:
        """A PUBREC arrives."""
        return self.acknowledge(packet_types.PUBREC, packet_id, reason_code)

    def pubcomp(self, packet_id: int) -> list[Packet]:
        """A PUBCOMP arrives."""
        return self.acknowledge(packet_types.PUBCOMP, packet_id)

    def end_chunk(self) -> list[Packet]:
        """What the connection does at the end of each chunk that it has read."""
        more = self.outbound.drain(self.now)
        received = self.flush()
        return received + self.run() if more else received

    # -- the client, sending

    def send(self, *sent: Publish, matched: bool = True) -> list[Packet]:
        """PUBLISHes arrive in one chunk, for topics that somebody is subscribed to or not."""
        for publish in sent:
            if self.session.inbound.accept(publish):
                self.routed.append(publish)
                self.session.inbound.answer(publish, matched, self.now)
        return self.end_chunk()

    def pubrel(self, packet_id: int) -> list[Packet]:
        """A PUBREL arrives."""
        self.session.inbound.release(packet_id)
        self.route_parked()
        return self.end_chunk()

    def route_parked(self) -> None:
        """What has waited for a packet id is routed, as long as there are free ones (FC-22)."""
        while (publish := self.session.inbound.take_parked()) is not None:
            self.routed.append(publish)
            self.session.inbound.answer(publish, True, self.now)

    # -- time and the books

    def advance(self, seconds: float) -> list[Packet]:
        """Let time pass; the timers that the session has asked for come due on the way."""
        received: list[Packet] = []
        until = self.now + int(seconds * SECOND)
        while 0 < self.outbound.sender.timer_at <= until:
            self.now = max(self.now, self.outbound.sender.timer_at)
            self.session.on_timer(self.now)
            if 0 < self.outbound.sender.timer_at <= self.now:
                raise AssertionError("a timer for a time that has passed comes due again and again")
            if self.outbound.sender.connected:
                received += self.run()
        self.now = until
        return received

    def take_counters(self) -> Counters:
        """End the metrics interval."""
        return self.session.take_counters(self.now)

    def window_ids(self) -> list[int]:
        """The packet ids in the window, in its order."""
        return list(self.outbound.sender.window.entries)

    def waiting(self) -> list[str]:
        """The texts in the mqueue, head first."""
        mqueue = self.outbound.mqueue
        return texts(mqueue) if mqueue is not None else []
