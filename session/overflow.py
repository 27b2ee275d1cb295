"""FC-5: makes room in a full queue, and counts and reports what is dropped. `MQueue.victim` picks it."""

from typing import Final

from protocol.publish import Publish
from session.counters import Counters
from session.flows import EVENT
from session.host import Host
from session.limits import Limits
from session.mqueue import MQueue

LOOKS: Final = 8
"""FC-36: what has waited too long is looked for so many times within the time that it may wait."""
SHORTEST_LOOK: Final = 1_000_000
LONGEST_LOOK: Final = 60_000_000
"""Microseconds between two looks, at least and at most."""


def looks_every(age: int) -> int:
    """FC-36: microseconds between two looks for what has waited longer than `age`."""
    return min(max(age // LOOKS, SHORTEST_LOOK), LONGEST_LOOK)


def has_aged(publish: Publish, now: int, limits: Limits) -> bool:
    """FC-36: whether a delivery has waited too long."""
    return 0 < limits.max_mqueue_age < now - publish.received_at


def has_expired(publish: Publish, now: int) -> bool:
    """Whether a message has expired [MQTT-3.3.2-5]."""
    return publish.expires_at != 0 and now >= publish.expires_at


def drop_expired(
    mqueue: MQueue, arrival: Publish, limits: Limits, counters: Counters, now: int, times: int = 1
) -> bool:
    """Drop what has expired or aged (FC-36) at the head until `arrival` fits, as `MQueue.fits`; returns whether."""
    while not mqueue.fits(arrival, limits, times):
        head = mqueue.head()
        if head is None:
            return False
        if has_expired(head, now):
            counters.count_drop("expired", mqueue.pop())
        elif has_aged(head, now, limits):
            counters.count_drop("aged", mqueue.pop())
        else:
            return False
    return True


def drop_arrival(mqueue: MQueue, arrival: Publish, limits: Limits, counters: Counters, host: Host, event: str) -> None:
    """Drop `arrival`: the queue overflows although its publishers are paced (FC-16)."""
    begin_episode(mqueue, arrival, limits, host, event)
    counters.count_drop("queue_full", arrival)


def begin_episode(mqueue: MQueue, arrival: Publish, limits: Limits, host: Host, event: str, coming: int = 0) -> None:
    """Have the host report that the queue is full, once until the caller ends the episode.

    `coming`: how many deliveries the mailbox has for it.
    """
    if mqueue.overflowing:
        return
    mqueue.overflowing = True
    host.report(event, why_full(mqueue, arrival, limits, coming))


def make_room(  # noqa: PLR0913, PLR0917 - counters, queue and host belong to the caller
    mqueue: MQueue,
    arrival: Publish,
    limits: Limits,
    counters: Counters,
    host: Host,
    now: int,
    event: str,
    times: int = 1,
) -> bool:
    """Drop what has to be dropped, and count it; returns whether `arrival` may join.

    The caller has sent what could be sent (FC-6); what is inflight is not in the queue, so it is never dropped (FC-15).
    The host reports the `event` once per episode, which the caller ends; `group` is the name of a shared queue. While
    publishers are paced, the limits are so many `times` as high.
    """
    while not drop_expired(mqueue, arrival, limits, counters, now, times):  # FC-5: expired deliveries first
        begin_episode(mqueue, arrival, limits, host, event)
        waiting = mqueue.length
        victim = arrival if arrival.flow == EVENT else mqueue.victim(arrival, limits)  # FC-35: it displaces nothing
        counters.count_drop("queue_full", victim)
        if mqueue.length == waiting:  # the arrival is dropped
            return False
    return True


def supersede(mqueue: MQueue, arrival: Publish, counters: Counters) -> bool:
    """FC-37: have `arrival` take the place of the older delivery of its topic, and count that one.

    Returns False if it has to join the queue: none is older, or that place is on disk, where `arrival` cannot be.
    """
    older = None if mqueue.newest is None else mqueue.newest.older(arrival)
    if older is None:
        return False
    counters.count_superseded(older.qos)
    replaced = mqueue.replace(older, arrival)
    if replaced:
        counters.note_mqueue(mqueue.length, mqueue.bytes)
    return replaced


def why_full(mqueue: MQueue, arrival: Publish, limits: Limits, coming: int = 0) -> str:
    """Text for the log: how much waits, which limit is reached, and the overflow policy."""
    length = mqueue.length + coming
    if limits.max_mqueue_len and length >= limits.max_mqueue_len:
        full = f"{length} deliveries wait, max_mqueue_len is {limits.max_mqueue_len}"
    else:
        more = f"and {arrival.size} bytes do not fit"
        full = f"{mqueue.bytes} payload bytes wait {more}, max_mqueue_bytes is {limits.max_mqueue_bytes}"
    return f"{full}; mqueue_overflow is {limits.mqueue_overflow}"


def drop_all(mqueue: MQueue | None, counters: Counters) -> None:
    """Drop what waits: the session has ended, or the group has no members."""
    while mqueue is not None and mqueue.length:
        counters.count_drop("session_ended", mqueue.drop_head())
