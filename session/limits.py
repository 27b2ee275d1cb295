"""The limits that one session works under, with FLOW-CONTROL.md's names and defaults."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, final

from session.flows import FIFO

if TYPE_CHECKING:
    from session.conflation import Conflation
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
REJECT: Final = "reject"
BLOCK: Final = "block"
"""FC-34: publishers are told before the queue overflows."""
DROP_ARRIVAL: Final = "drop_arrival"
"""FC-32: a delivery that arrives is dropped, never one that waits. No configuration sets it."""


@final
@dataclass(eq=False)
class Limits:
    """Limits shared by many sessions. Counts and sizes: 0 = no limit. Durations: microseconds, 0 = never."""

    max_inflight: int = 32
    max_mqueue_len: int = 1000
    max_mqueue_bytes: int = 8_388_608
    mqueue_overflow: str = DROP_OLDEST
    """FC-5: what an overflow drops now: FC-32 sets it for a time."""
    mqueue_store_qos0: bool = True
    retry_interval: int = 30_000_000
    receive_maximum: int = PACKET_IDS
    tolerate_receive_maximum: bool = False
    max_awaiting_rel: int = PACKET_IDS
    await_rel_timeout: int = 300_000_000
    producer_window_size: int = 65_536
    """FC-22, FC-25: bytes of PUBLISHes that may wait for a free packet id, or for room."""
    max_topic_alias_out: int = 32
    consumer_window_size: int = UNBOUNDED
    """FC-10, in bytes. Here 0 means one delivery at a time."""
    consumer_max_rate: int = 0
    priorities: "Priorities | None" = None
    """FC-12; None = one queue, first in, first out."""
    slow_threshold: float = 0.5
    """FC-14: messages a second; 0 = off."""
    slow_check_period: int = 5_000_000
    slow_disconnect: bool = False
    stalled_window: int = 60_000_000
    overflow_patience: int = 5_000_000
    """FC-16. Here 0 means off."""
    of_cell: bool = False
    """Whether its sessions are links to other cells (broker/cluster): what comes by one goes by none (CL-2)."""
    gate: bool = True
    """False switches FC-3 off, as the baseline of the experiment. No configuration sets it."""
    fairness: int = FIFO
    """FC-33: between whom the mqueue is fair, as session/flows.py has it."""
    group_keys: bool = False
    """FC-33: whether a group gives a flow to one member at a time. Only with `fairness`."""
    max_mqueue_age: int = NEVER
    """FC-36."""
    conflation: "Conflation | None" = None
    """FC-37; None = all deliveries wait."""
    producer_max_rate: int = 0
    """FC-23: PUBLISHes a second of one connection."""
    byte_windows: bool = False
    """FC-39: whether any session may have a byte window above 0 (FC-10): the queues of groups look at it."""
    overflow_timeout: int = 30_000_000
    overflow_offline_grace: int = 0
    """FC-34. Here 0 means none."""
    backpressure: bool = field(init=False)
    """FC-34: whether publishers are told that the queue is full."""
    rejects: bool = field(init=False)

    def __post_init__(self) -> None:
        self.use_overflow(self.mqueue_overflow)
        self.byte_windows = self.byte_windows or self.consumer_window_size > 0

    def use_overflow(self, policy: str) -> None:
        """The configured `mqueue_overflow`."""
        self.mqueue_overflow = policy
        self.backpressure = policy in (REJECT, BLOCK)
        self.rejects = policy == REJECT

    def window(self, receive_maximum: int) -> int:
        """FC-1: W for a client whose Receive Maximum is `receive_maximum` (0 = it stated none, or speaks 3.1.1)."""
        own = self.max_inflight or PACKET_IDS
        return min(own, receive_maximum) if receive_maximum else own
