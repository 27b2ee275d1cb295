"""FC-33: who has published a message, as a number: its flow.

A flow is two lanes in one number, that of the publisher's client id and that of the user's name. One of them decides: a
queue is fair between publishers, or between users. Above them is the number of the client (CL-5), or of a broker.
"""

from typing import Final
from zlib import crc32

from mypy_extensions import i64

FLOW_BITS: Final = 11
"""How many bits of a lane's number say the flow; those above say the weight."""

LANES: Final = 1024
"""Flows are hashed into this many lanes (stochastic fairness queueing)."""

UNKNOWN: Final = 0
"""The lane of the broker's own messages, and of what was published before flows were told apart."""

EVENT: Final = 1 << 2 * FLOW_BITS
"""FC-35: the flow of drop events, by which their own drops are known, also after a restart; its lanes are UNKNOWN."""

BROKER: Final = 0x800000
"""The bit above that of EVENT. Another broker has sent it. Its id, 32 bits, is in the bits above; 0 = not known."""

KEPT: Final = 0xFFFFFF
"""What the journal has of a flow: not which broker or client it was, whose number is of this process."""

_NUMBER: Final = 24

PUBLISHING_BROKER: Final = 1 << 36
"""In the number of a publisher: it is a broker, and the rest is its id. No client has such a number."""

FIFO: Final = -1
PUBLISHER: Final = 0
USER: Final = FLOW_BITS
"""What a queue is fair between: where the lane begins in a flow, in bits; FIFO = it does not ask."""

_MASK: Final = (1 << FLOW_BITS) - 1


def flow_of(client_id: str, user: str) -> int:
    """The flow of what a client publishes. It is the same after a restart: what waits keeps its order (FC-9)."""
    return _lane(user or client_id) << USER | _lane(client_id)


def from_broker(flow: int, broker_id: int) -> int:
    """The flow of what another broker sends."""
    return flow | BROKER | broker_id << _NUMBER


def from_client(flow: int, number: int) -> int:
    """The flow of what a client of this process sends. `number` is above 0."""
    return flow | number << _NUMBER


def publisher_of(flow: i64) -> i64:
    """A number for who has sent it: that of a client of this process, from PUBLISHING_BROKER on the id of a broker.

    0 = it cannot be told.
    """
    number = flow >> _NUMBER
    return PUBLISHING_BROKER | number if flow & BROKER and number else number


def broker_of(flow: i64) -> i64:
    """The id of the broker that has sent it; 0 = not known."""
    return flow >> _NUMBER


def flow_lane(flow: i64, fairness: i64) -> i64:
    """The lane of a flow, 1 to LANES; UNKNOWN = it has none."""
    return flow >> fairness & _MASK


def _lane(name: str) -> int:
    return crc32(name.encode()) % LANES + 1


def lane_number(weight: int, flow: int) -> int:
    """The number of the lane for a weight (FC-12, 0 = there are none) and a lane of flows (0 = all flows, UNKNOWN)."""
    return weight << FLOW_BITS | flow
