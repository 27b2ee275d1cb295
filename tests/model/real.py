"""The session that is held to the model: the real one, with a host and the decoder of its client."""

from broker.storage.journal import Journal
from protocol import packet_types
from protocol.acknowledgements import Acknowledgement
from protocol.decoder import Decoder
from protocol.properties import MESSAGE_EXPIRY_INTERVAL
from protocol.publish import Publish
from session.address import Address, AddressRule
from session.conflation import Conflation
from session.flows import FIFO, PUBLISHER
from session.host import Host
from session.limits import Limits
from session.outbound import Outbound
from session.priorities import Priorities
from session.session import Session
from tests.model.knobs import Knobs
from tests.model.message import SECOND, Message, Packet

_NAMES = {
    packet_types.PUBACK: "PUBACK",
    packet_types.PUBREC: "PUBREC",
    packet_types.PUBREL: "PUBREL",
    packet_types.PUBCOMP: "PUBCOMP",
}


def limits_of(knobs: Knobs) -> Limits:
    """The knobs as the session takes them."""
    return Limits(
        max_inflight=knobs.max_inflight,
        max_mqueue_len=knobs.max_mqueue_len,
        max_mqueue_bytes=knobs.max_mqueue_bytes,
        mqueue_overflow=knobs.mqueue_overflow,
        mqueue_store_qos0=knobs.mqueue_store_qos0,
        retry_interval=knobs.retry_interval,
        receive_maximum=knobs.receive_maximum,
        tolerate_receive_maximum=knobs.tolerate_receive_maximum,
        max_awaiting_rel=knobs.max_awaiting_rel,
        await_rel_timeout=knobs.await_rel_timeout,
        producer_window_size=knobs.producer_window_size,
        consumer_window_size=knobs.consumer_window_size,
        consumer_max_rate=knobs.consumer_max_rate,
        priorities=Priorities(list(knobs.mqueue_priorities)) if knobs.mqueue_priorities else None,
        slow_threshold=knobs.slow_threshold,
        slow_check_period=knobs.slow_check_period,
        slow_disconnect=knobs.slow_disconnect,
        stalled_window=knobs.stalled_window,
        overflow_patience=knobs.overflow_patience,
        gate=knobs.gate,
        conflation=Conflation(list(knobs.conflate)) if knobs.conflate else None,
        max_mqueue_age=knobs.max_mqueue_age,
        overflow_timeout=knobs.overflow_timeout,
        overflow_offline_grace=knobs.overflow_offline_grace,
        fairness=PUBLISHER if knobs.fair else FIFO,
        group_keys=knobs.keyed,
    )


def publish_of(message: Message) -> Publish:
    """The message as the router makes it."""
    properties = {MESSAGE_EXPIRY_INTERVAL: message.expiry} if message.expiry else None
    publish = Publish(message.topic.encode(), message.payload, message.qos, False, properties)  # type: ignore[arg-type]
    publish.received_at = message.routed_at
    publish.flow = message.flow
    if message.expiry:
        publish.expires_at = message.routed_at + message.expiry * SECOND
    return publish


def text_of(publish: Publish) -> str:
    """What tells a message from others."""
    return publish.payload[:12].rstrip(b".").decode()


class Real(Host):
    """One session, run as the broker runs it."""

    def __init__(self, knobs: Knobs, now: int) -> None:
        self.now = now
        self.session = Session("c", limits_of(knobs), self, now)
        self.outbound = self.session.outbound
        self.awake = False
        """Whether the session has to make a pass."""
        self.timer_at = 0
        """When the session's timer fires; 0 = it does not."""
        self.reports: list[str] = []
        self.let_in_ids: list[int] = []
        """Packet ids of what has waited for one, in the order in which it was let in."""
        self.farewell: list[Packet] | None = None
        """What was written when the session had its client disconnected."""
        self.addresses: dict[str, Address] = {}
        """By topic; empty where nothing is counted for addresses."""
        self.paused = False
        """Whether it is held back as a publisher (FC-16)."""
        self.journal: Journal | None = None
        """Where it writes what has to survive (FC-27)."""
        self._addressed = knobs.addresses
        self._decoder = Decoder()

    # -- what the session asks for

    def wake(self) -> None:
        """Have passes run; who is away has what came stored."""
        if self.outbound.sender.connected:
            self.awake = True
        else:
            self.outbound.store_offline(self.now)

    def arm(self, at: int) -> None:
        """Note for when: an earlier call is replaced."""
        self.timer_at = at

    def report(self, event: str, detail: str = "") -> None:
        """Note the event."""
        self.reports.append(event)

    def route_parked(self, now: int) -> None:
        """Route what there is a packet id for again, and answer it."""
        while (publish := self.session.inbound.take_parked()) is not None:
            self.let_in_ids.append(publish.packet_id)
            self.session.inbound.answer(publish, True, now)

    def close(self, reason_code: int, reason: str) -> None:
        """Close at once, as a connection does."""
        assert reason_code == 0x97
        self.farewell = self.flush()
        self.part()

    def pause_publishing(self) -> None:
        """It is held back from now on, if it is not gone."""
        assert not self.paused, "held back twice"
        self.paused = True

    def resume_publishing(self) -> None:
        """It goes on."""
        assert self.paused, "let go twice"
        self.paused = False

    # -- what happens to it

    def timer_due(self) -> bool:
        """Whether the timer is to fire: when asked for, and not since replaced."""
        return 0 < self.timer_at == self.outbound.sender.timer_at <= self.now

    def fire(self) -> None:
        """The timer fires."""
        if self.timer_due():
            self.timer_at = 0
        self.session.on_timer(self.now)

    def lacks_room(self, message: Message) -> bool:
        """FC-34: whether the publisher is to be told."""
        return self.outbound.begin_backlog().lacking(publish_of(message), 1, True, self.now) is not None

    def route(self, message: Message, publisher: Outbound | None = None) -> None:
        """The router hands a delivery over."""
        publish = publish_of(message)
        publish.holder = self.address(publish.topic)
        publish.received_at = self.now
        if self.journal is not None:
            self.journal.begin(publish, "")
        self.outbound.offer(publish, publisher)
        if self.journal is not None:
            self.journal.end()

    def address(self, topic: bytes) -> Address | None:
        """What counts the bytes of a topic (FC-24)."""
        if not self._addressed:
            return None
        name = topic.decode()
        if name not in self.addresses:
            self.addresses[name] = Address(topic, AddressRule(1 << 40))
        return self.addresses[name]

    def run_pass(self) -> None:
        """One pass; `flush` comes next."""
        self.awake = self.outbound.run_pass(self.now)

    def flush(self) -> list[Packet]:
        """Write the outbox; returns what the client reads."""
        self._decoder.feed(b"".join(self.outbound.sender.outbox.take()))
        packets: list[Packet] = []
        while (packet := self._decoder.next_packet()) is not None:
            if isinstance(packet, Publish):
                left = (packet.properties or {}).get(MESSAGE_EXPIRY_INTERVAL)
                topic = packet.topic.decode()
                packets.append(("PUBLISH", packet.packet_id, packet.dup, packet.qos, topic, packet.payload, left))
            else:
                assert isinstance(packet, Acknowledgement)
                packets.append((_NAMES[packet.packet_type], packet.packet_id, packet.reason_code))
        return packets

    def connect(self, version: int, receive_maximum: int, maximum_packet_size: int) -> None:
        """A client attaches; its session starts awake."""
        self._decoder = Decoder(maximum_packet_size, version=version)
        self.session.connect(self, version, receive_maximum, maximum_packet_size, self.now)
        self.awake = True

    def part(self) -> None:
        """The connection is gone."""
        self.session.disconnect(self, self.now)
        self.awake = False
