"""The section `session`: flow control of each session. FLOW-CONTROL.md has the rules."""

from math import inf
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, field_validator

from config.units import format_duration, found
from config.value_types import (
    MAX_UINT16,
    Count,
    Duration,
    FiniteCount,
    FiniteDuration,
    FiniteSize,
    Model,
    Partial,
    Rate,
    Size,
    TopicFilter,
    Window,
    keys_of,
)

HEAVIEST: Final = 255
"""The largest weight of a topic."""

LEAST_PATIENCE: Final = 0.2
"""Seconds."""

MOST_MESSAGES: Final = 1_000_000
"""A second, more than any session can reach."""


def _threshold(value: object) -> object:
    """Check a rate; 0 is refused, because no session can be below it."""
    if value is None:
        return None
    if isinstance(value, int | float | str) and not isinstance(value, bool):
        try:
            if 0 < float(value) <= MOST_MESSAGES:
                return value
        except (ValueError, OverflowError):
            pass
    raise ValueError(
        f"found {found(value)}: write messages a second, above 0 and at most {MOST_MESSAGES}, such as 10 or 0.5, "
        "or null to turn it off"
    )


def _patience(seconds: float) -> float:
    """Refuse times near the precision of FC-16's timers, which can be 100 ms late."""
    if 0 < seconds < LEAST_PATIENCE:
        raise ValueError(f"found {format_duration(seconds)}: write 200ms or more, or 0 to turn it off")
    return seconds


def _group_order(order: str, info: ValidationInfo) -> str:
    """Refuse an order by publisher where none is told from another; `mqueue_fairness` comes first."""
    if order == "key" and info.data.get("mqueue_fairness") == "fifo":
        raise ValueError("found 'key' with mqueue_fairness: fifo: set that to publisher or user, or write any")
    return order


class Priority(Model):
    """FC-12: the weight of the topics of one filter in the mqueue."""

    match: TopicFilter
    """The topics; of several filters that match, the most specific one applies."""
    weight: FiniteCount = Field(ge=1, le=HEAVIEST)
    """Deliveries sent in each round of the mqueue; topics that no filter matches have weight 1."""


class SlowConsumer(Model):
    """FC-14: when a session is a slow consumer, and what happens then."""

    threshold: Annotated[float | None, BeforeValidator(_threshold)] = 0.5
    """FC-14: a session with a backlog that acknowledges or drains fewer messages a second is slow. None = off."""
    check_period: FiniteDuration = Field(default=5.0, ge=1)
    """FC-14: seconds over which that is measured."""
    policy: Literal["notify", "disconnect"] = "notify"
    """FC-14: report it only, or disconnect it too."""


class Session(Model):
    """Flow control of each session."""

    max_inflight: Count = Field(default=32, le=MAX_UINT16)
    """FC-1: deliveries of QoS 1 and 2 in the window. 0 = no limit except the client's."""
    max_mqueue_len: Count = 1000
    """FC-5: deliveries in the mqueue. 0 = no limit."""
    max_mqueue_bytes: Size = 8 * 1024 * 1024
    """FC-5: payload bytes in the mqueue. 0 = no limit."""
    mqueue_overflow: Literal["drop_oldest", "drop_oldest_qos0", "drop_newest", "reject", "block"] = "drop_oldest"
    """FC-5: which delivery is dropped when the mqueue overflows; FC-34: or that the publisher is told."""
    overflow_timeout: FiniteDuration = Field(default=30.0, ge=1)
    """FC-34: seconds for which a PUBLISH may wait for room in a queue; after them a client that takes nothing is as one
    that is away."""
    overflow_offline_grace: FiniteDuration = 0.0
    """FC-34: seconds for which a client may be away until its queue drops, and stops nobody."""
    mqueue_store_qos0: bool = True
    """FC-7: whether sessions that are offline queue QoS 0."""
    max_mqueue_age: Duration = Field(default=inf, gt=0)
    """FC-36: seconds that a delivery may wait in an mqueue. math.inf = any time."""
    mqueue_fairness: Literal["fifo", "publisher", "user"] = "fifo"
    """FC-33: the mqueue is fair between publishers, or between users; fifo = first in, first out."""
    group_order: Annotated[Literal["any", "key"], AfterValidator(_group_order)] = "any"
    """FC-33: whether a group gives what one publisher, or user, sends to one member at a time."""
    mqueue_priorities: list[Priority] = Field(default_factory=list)
    """FC-12: weights of topics in the mqueue; empty = first in, first out."""
    conflate: list[TopicFilter] = Field(default_factory=list)
    """FC-37: of the topics of these filters only the newest delivery waits in the mqueue."""
    retry_interval: Duration = Field(default=30.0, gt=0)
    """FC-8: seconds after which a connected 3.1.1 session resends. math.inf = never."""
    consumer_window_size: Window = -1
    """FC-10: payload bytes unacknowledged or in the transport buffer. -1 = no limit, 0 = one delivery at a time."""
    consumer_max_rate: Rate = 0
    """FC-11: deliveries a second. 0 = no limit."""
    slow_consumer: SlowConsumer = Field(default_factory=SlowConsumer)
    """FC-14: slow consumers."""
    stalled_window: Duration = Field(default=60.0, ge=1)
    """FC-14: seconds after which a full window without an acknowledgement is reported. math.inf = never."""
    overflow_patience: Annotated[FiniteDuration, AfterValidator(_patience)] = 5.0
    """FC-16: seconds for which publishers may be paced when a queue that drains would overflow. 0 = off."""
    receive_maximum: FiniteCount = Field(default=MAX_UINT16, ge=1, le=MAX_UINT16)
    """FC-20: QoS 1 and 2 PUBLISHes that an MQTT 5 client may have unacknowledged; by default all packet ids."""
    receive_maximum_policy: Literal["disconnect", "tolerate"] = "disconnect"
    """FC-20: what happens to a client that exceeds receive_maximum."""
    max_awaiting_rel: Count = MAX_UINT16
    """FC-22: QoS 2 packet ids that may wait for PUBREL; beyond it PUBLISHes are parked. 0 = no limit."""
    await_rel_timeout: Duration = Field(default=300.0, gt=0)
    """FC-22: seconds after which the broker forgets such a packet id. math.inf = never."""
    producer_max_rate: Rate = 0
    """FC-23: PUBLISHes a second that are read from one connection. 0 = no limit."""
    producer_window_size: FiniteSize = Field(default=64 * 1024, ge=1)
    """FC-25: bytes of one client that may be parked at full addresses; beyond it reading pauses. FC-22: the same for
    packet ids; beyond it the client is disconnected."""


class ListenerSlowConsumer(SlowConsumer, Partial):
    """FC-14: what is given here is another for the clients of one listener."""


_ORDER: Final = "groups and the journal have one order for all listeners"
COMMON: Final = {
    "mqueue_fairness": _ORDER,
    "mqueue_priorities": _ORDER,
    "group_order": _ORDER,
    "conflate": _ORDER,
    "receive_maximum": "CONNACK says the same at all listeners",
    "overflow_timeout": "a PUBLISH waits for the receivers of all listeners",
    "producer_window_size": "addresses have one producer window for all listeners",
}
"""FC-39: keys that a listener cannot have of its own, and why."""


class ListenerSession(Session, Partial):
    """FC-39: what is given here is another for the clients of one listener; the rest is as in `session`."""

    slow_consumer: ListenerSlowConsumer = Field(default_factory=ListenerSlowConsumer)
    """FC-14: slow consumers."""

    @field_validator(*COMMON, mode="before")
    @classmethod
    def _refuse(cls, _: object, info: ValidationInfo) -> object:
        raise ValueError(f"{COMMON[info.field_name or '']}: write it in session")

    def over(self, session: Session) -> Session:
        """The section that counts: what is given here, and the rest of `session`."""
        given: dict[str, Any] = {name: getattr(self, name) for name in keys_of(self)}
        if "slow_consumer" in given:
            own = {name: getattr(self.slow_consumer, name) for name in keys_of(self.slow_consumer)}
            given["slow_consumer"] = session.slow_consumer.model_copy(update=own)
        return session.model_copy(update=given)
