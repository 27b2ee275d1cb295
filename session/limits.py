"""The limits that one session works under, with FLOW-CONTROL.md's names and defaults."""

from typing import TYPE_CHECKING, Final, final

from session.flows import FIFO

if TYPE_CHECKING:
    from session.priorities import Priorities

NEVER: Final = 0
"""A duration of 0 means `infinity`."""

UNBOUNDED: Final = -1
"""No byte window (FC-10)."""

PACKET_IDS: Final = 65_535
"""The window's limit when `max_inflight` is 0: packet identifiers are two bytes, and not 0 [MQTT-2.2.1-4]."""

DROP_OLDEST: Final = "drop_oldest"
DROP_OLDEST_QOS0: Final = "drop_oldest_qos0"
DROP_NEWEST: Final = "drop_newest"
DROP_ARRIVAL: Final = "drop_arrival"
"""FC-32: a delivery that arrives is dropped, never one that waits. No configuration sets it."""


@final
class Limits:
    """Limits shared by many sessions. Counts and sizes: 0 = no limit. Durations: microseconds, 0 = never."""

    def __init__(  # noqa: PLR0913, PLR0917 - one per key, always given by name
        self,
        max_inflight: int = 32,
        max_mqueue_len: int = 1000,
        max_mqueue_bytes: int = 0,
        mqueue_overflow: str = DROP_OLDEST,
        mqueue_store_qos0: bool = True,
        retry_interval: int = 30_000_000,
        receive_maximum: int = PACKET_IDS,
        tolerate_receive_maximum: bool = False,
        max_awaiting_rel: int = PACKET_IDS,
        await_rel_timeout: int = 300_000_000,
        producer_window_size: int = 65_536,
        max_topic_alias_out: int = 32,
        consumer_window_size: int = UNBOUNDED,
        consumer_max_rate: int = 0,
        priorities: "Priorities | None" = None,
        slow_threshold: float = 0.5,
        slow_check_period: int = 5_000_000,
        slow_disconnect: bool = False,
        stalled_window: int = 60_000_000,
        overflow_patience: int = 5_000_000,
        gate: bool = True,
        fairness: int = FIFO,
        max_mqueue_age: int = NEVER,
    ) -> None:
        self.max_inflight = max_inflight
        self.max_mqueue_len = max_mqueue_len
        self.max_mqueue_bytes = max_mqueue_bytes
        self.mqueue_overflow = mqueue_overflow
        self.mqueue_store_qos0 = mqueue_store_qos0
        self.retry_interval = retry_interval
        self.receive_maximum = receive_maximum
        self.tolerate_receive_maximum = tolerate_receive_maximum
        self.max_awaiting_rel = max_awaiting_rel
        self.await_rel_timeout = await_rel_timeout
        self.producer_window_size = producer_window_size
        """FC-22: bytes of PUBLISHes that may wait for a free packet id."""
        self.max_topic_alias_out = max_topic_alias_out
        self.consumer_window_size = consumer_window_size
        """FC-10, in bytes. Here 0 means one delivery at a time."""
        self.consumer_max_rate = consumer_max_rate
        self.priorities = priorities
        """FC-12; None = one queue, first in, first out."""
        self.fairness = fairness
        """FC-33: between whom the mqueue is fair, as session/flows.py has it."""
        self.slow_threshold = slow_threshold
        """FC-14: messages a second; 0 = off."""
        self.slow_check_period = slow_check_period
        self.slow_disconnect = slow_disconnect
        self.stalled_window = stalled_window
        self.overflow_patience = overflow_patience
        """FC-16, in microseconds. Here 0 means off."""
        self.gate = gate
        """False switches FC-3 off, as the baseline of the experiment. No configuration sets it."""


        self.max_mqueue_age = max_mqueue_age
        """FC-36."""

    def window(self, receive_maximum: int) -> int:
        """FC-1: W for a client whose Receive Maximum is `receive_maximum` (0 = it stated none, or speaks 3.1.1)."""
        own = self.max_inflight or PACKET_IDS
        return min(own, receive_maximum) if receive_maximum else own
