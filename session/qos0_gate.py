"""FC-3: the gate that keeps QoS 0 from overtaking QoS 1 and 2 when a client is slow."""

from typing import Final

OPEN: Final = 0
CONGESTED: Final = 1
WINDOW_FULL: Final = 2
MAILBOX_BUSY: Final = 3
BACKLOG: Final = 4
RATE: Final = 5
"""Set by the throttle, not by the gate: `consumer_max_rate` is used up (FC-11)."""

MAILBOX_BUSY_HIGH: Final = 10
"""A mailbox longer than this sets "busy" ..."""
MAILBOX_BUSY_LOW: Final = 5
"""... and one of this length or below clears it. FC-3: these numbers are not configurable."""
SENDS_PER_SAMPLE: Final = 100


def closed_by(congested: bool, window_full: bool, busy: bool, backlog: bool) -> int:
    """Why QoS 0 to an online session is queued: the first reason that holds, in FC-3's order; OPEN if none does."""
    if congested:
        return CONGESTED
    if window_full:
        return WINDOW_FULL
    if busy:
        return MAILBOX_BUSY
    if backlog:
        return BACKLOG
    return OPEN
