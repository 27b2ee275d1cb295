"""The section `session`: flow control of each session, with FLOW-CONTROL's names, defaults and units."""

from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from config.units import format_duration, found
from config.value_types import (
    MAX_UINT16,
    Count,
    Duration,
    FiniteCount,
    FiniteDuration,
    FiniteSize,
    Model,
    Rate,
    Size,
    TopicFilter,
    Window,
)

HEAVIEST: Final = 255
"""The largest weight of a topic."""

LEAST_PATIENCE: Final = 0.2
"""Seconds."""

MOST_MESSAGES: Final = 1_000_000
"""A second; no broker is that fast, so a session that has to be faster is a mistake."""


def _threshold(value: object) -> object:
    """Refuse what is no rate, 0 too: below it is nobody."""
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
        "or null to report nobody"
    )


def _patience(seconds: float) -> float:
    """Refuse what is shorter than what FC-16 can tell from nothing: its timers come up to 100 ms late."""
    if 0 < seconds < LEAST_PATIENCE:
        raise ValueError(f"found {format_duration(seconds)}: write 200ms or more, or 0s to hold nobody back")
    return seconds


class Priority(Model):
    """FC-12: how much one kind of topics weighs in the mqueue."""

    match: TopicFilter
    """The topics; of several filters that match, the most specific one applies."""
    weight: FiniteCount = Field(ge=1, le=HEAVIEST)
    """In each round of the mqueue so many deliveries are sent; topics that nothing matches weigh 1."""


class SlowConsumer(Model):
    """FC-14: what a slow consumer is, and what happens to it."""

    threshold: Annotated[float | None, BeforeValidator(_threshold)] = None
    """FC-14: acknowledged or drained messages a second; fewer, while there is a backlog, is slow. None = never."""
    check_period: FiniteDuration = Field(default=5.0, ge=1)
    """FC-14: seconds over which that is measured."""
    policy: Literal["notify", "disconnect"] = "notify"
    """FC-14: whether it is reported, or disconnected too."""


class Session(Model):
    """Flow control of each session."""

    max_inflight: Count = Field(default=32, le=MAX_UINT16)
    """FC-1: deliveries of QoS 1 and 2 in the window. 0 = no limit of ours."""
    max_mqueue_len: Count = 1000
    """FC-5: deliveries in the mqueue. 0 = no limit."""
    max_mqueue_bytes: Size = 0
    """FC-5: payload bytes in the mqueue. 0 = no limit."""
    mqueue_overflow: Literal["drop_oldest", "drop_oldest_qos0", "drop_newest"] = "drop_oldest"
    """FC-5: which delivery makes room when the mqueue is full."""
    mqueue_store_qos0: bool = True
    """FC-7: whether sessions that are offline queue QoS 0."""
    mqueue_priorities: list[Priority] = Field(default_factory=list)
    """FC-12: weights of topics in the mqueue; empty = first in, first out."""
    retry_interval: Duration = Field(default=30.0, gt=0)
    """FC-8: seconds after which a connected 3.1.1 session resends. math.inf = never."""
    consumer_window_size: Window = -1
    """FC-10: payload bytes sent and unacknowledged or in the transport. -1 = no limit, 0 = one delivery at a time."""
    consumer_max_rate: Rate = 0
    """FC-11: deliveries a second. 0 = no limit."""
    slow_consumer: SlowConsumer = Field(default_factory=SlowConsumer)
    """FC-14: which sessions are too slow."""
    stalled_window: Duration = Field(default=60.0, ge=1)
    """FC-14: seconds after which a full window without one acknowledgement is reported. math.inf = never."""
    overflow_patience: Annotated[FiniteDuration, AfterValidator(_patience)] = 5.0
    """FC-16: seconds that publishers may be held back before a queue that drains overflows. 0 = not at all."""
    receive_maximum: FiniteCount = Field(default=MAX_UINT16, ge=1, le=MAX_UINT16)
    """FC-20: QoS 1 and 2 PUBLISHes that an MQTT 5 client may have unacknowledged; by default all ids that there are."""
    receive_maximum_policy: Literal["disconnect", "tolerate"] = "disconnect"
    """FC-20: what happens to a client that exceeds receive_maximum."""
    max_awaiting_rel: Count = MAX_UINT16
    """FC-22: QoS 2 packet ids that wait for their PUBREL; past it PUBLISHes are parked. 0 = no limit."""
    await_rel_timeout: Duration = Field(default=300.0, gt=0)
    """FC-22: seconds after which such an id is forgotten. math.inf = never."""
    producer_max_rate: Rate = 0
    """FC-23: PUBLISHes a second that are read from one connection. 0 = no limit."""
    producer_window_size: FiniteSize = Field(default=64 * 1024, ge=1)
    """FC-25: bytes of one client that may be parked at full addresses; past that it is not read. FC-22: the same for
    packet ids; past that it is disconnected."""
