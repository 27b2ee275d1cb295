"""What the model knows of one session, and what follows from it: may a delivery go?"""

from dataclasses import dataclass
from typing import Final

from tests.model.books import Books
from tests.model.inbound import Inbound
from tests.model.knobs import Knobs
from tests.model.message import Message, Packet
from tests.model.mqueue import MQueue
from tests.model.pacing import Pacer, Publisher
from tests.model.rate import Rate
from tests.model.slow import Slow
from tests.model.telling import Telling

PACKET_IDS: Final = 65_535
OVERHEAD: Final = 700
"""FC-24a: bytes that each delivery counts for its address beside payload, topic and properties."""

TIMES: Final = (
    "window_full_us",
    "congested_us",
    "rate_limited_us",
    "window_bytes_full_us",
    "publish_throttled_us",
    "reading_paused_us",
    "paced_for_us",
    "publish_paced_us",
    "connected_us",
)
"""What `tick` adds to: how long something held."""


@dataclass(eq=False)
class Inflight:
    """One delivery in the window. Times in microseconds."""

    packet_id: int
    message: Message
    sent_at: int
    last_sent_at: int
    waits_for: str
    """PUBACK, PUBREC or PUBCOMP."""
    here: bool = True
    """Whether it has been sent, or resent, on the present connection."""
    group: object = None
    """The shared queue that it has been taken from (FC-13)."""


class State:
    """One session."""

    def __init__(self, knobs: Knobs, now: int) -> None:
        self.knobs = knobs
        self.now = now
        self.books = Books(now)
        self.connected = False
        self.over = False
        self.version = 4
        self.window_limit = PACKET_IDS
        self.maximum_packet_size = 0
        self.congested = False
        self.looked_at = now
        """When it was last looked for what has waited too long (FC-36), or that began."""
        self.mailbox: list[Message] = []
        self.mailbox_busy = False
        self.sends = 0
        self.window: list[Inflight] = []
        self.last_id = 0
        self.mqueue = MQueue(knobs)
        self.rate = Rate(knobs.consumer_max_rate, now) if knobs.consumer_max_rate else None
        self.unwritten_qos0: list[Message] = []
        self.head_waits_for = ""
        self.retry_put_off = 0
        self.slow = Slow(knobs)
        self.pacer = Pacer(knobs, now)
        self.publisher = Publisher(knobs)
        self.inbound = Inbound(knobs)
        self.telling = Telling(knobs)
        self.outbox: list[tuple[Packet, int]] = []
        self.reports: list[str] = []
        self.throttled = False
        self.reading_paused = False
        self.life: dict[str, int] = {"sent": 0, "acknowledged": 0, "dropped": 0, "window_full_us": 0}
        self.waiting_start = [0, 0, 0]

    # -- what the world sees

    def tick(self, now: int) -> None:
        """The clock moves on."""
        passed = now - self.now
        self.now = now
        holds = (
            self.connected and self.window_full(),
            self.congested,
            self.head_waits_for == "rate",
            self.head_waits_for == "window_full",
            self.throttled,
            self.reading_paused,
            bool(self.pacer.held),
            bool(self.publisher.held_by),
            self.connected,
        )
        for name, held in zip(TIMES, holds, strict=True):
            if held:
                self.books.count(name, passed)
        self.pacer.tick(now)
        self.publisher.tick(passed)

    def flush(self) -> list[Packet]:
        """The outbox is written: what the client gets."""
        packets = [packet for packet, _ in self.outbox]
        self.outbox = []
        return packets

    def _completed(self, inflight: Inflight) -> None:
        """It has left the window."""

    # -- may it go?

    def window_full(self) -> bool:
        """FC-1; also while what is kept from another connection exceeds a smaller window."""
        return len(self.window) >= self.window_limit

    def no_slot(self) -> bool:
        """FC-8: what is kept goes before anything new."""
        return self.window_full() or bool(self._kept())

    def _kept(self) -> list[Inflight]:
        """What of the window has not been resent on this connection (FC-8)."""
        return [inflight for inflight in self.window if not inflight.here]

    def may_go(self, message: Message) -> bool:
        """FC-4: whether a delivery that is next may be sent now."""
        if not self.connected or self._kept():
            return False
        if message.qos == 0 and self.congested and self.knobs.gate:
            return False
        if message.qos and self.window_full():
            return False
        return not self._throttle(message)

    def _throttle(self, message: Message) -> str:
        """FC-10 and FC-11: what holds back a delivery that window and gate would let go."""
        if self._bytes_closed(message, self.unwritten_qos0):
            return "window_full"
        return "rate" if self.rate is not None and self.rate.tokens_at(self.now) < 1 else ""

    def _bytes_closed(self, message: Message, unwritten: list[Message]) -> bool:
        """FC-10. What is larger than the window goes alone."""
        size = self.knobs.consumer_window_size
        on_the_way = [inflight.message for inflight in self.window] + unwritten
        if size < 0 or not on_the_way:
            return False
        return size == 0 or sum(other.size for other in on_the_way) + message.size > size

    def bytes_on_the_way(self) -> int:
        """FC-10: what counts for the byte window; 0 where there is none."""
        on_the_way = [inflight.message for inflight in self.window] + self.unwritten_qos0
        return sum(message.size for message in on_the_way) if self.knobs.consumer_window_size >= 0 else 0

    def held_of(self, topic: str) -> int:
        """FC-24: the size of an address, what is held of it in mailbox, mqueue and window."""
        held = self.mailbox + self.mqueue.waiting + [inflight.message for inflight in self.window]
        return sum(self._cost(message) for message in held if message.topic == topic)

    def _cost(self, message: Message) -> int:
        """FC-24a. Corner: an expiry is no text, so it is in the overhead."""
        return message.size + len(message.topic) + OVERHEAD

    def _note_written(self) -> None:
        """Corner (FC-10): that all QoS 0 has left outbox and transport is noted when a pass or a drain begins."""
        if not self.congested and self._outbox_bytes() == 0:
            self.unwritten_qos0 = []

    def _outbox_bytes(self) -> int:
        return sum(size for _, size in self.outbox)
