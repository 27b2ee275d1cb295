"""FC-5: what is dropped when a queue is full."""

from protocol.publish import Publish
from session.counters import Counters
from session.host import Host
from session.limits import Limits
from session.mqueue import MQueue


def has_expired(publish: Publish, now: int) -> bool:
    """Whether a message's time is over [MQTT-3.3.2-5]."""
    return publish.expires_at != 0 and now >= publish.expires_at


def make_room(  # noqa: PLR0913, PLR0917 - the books, the queue and who is told belong to the caller
    mqueue: MQueue,
    newcomer: Publish,
    limits: Limits,
    counters: Counters,
    host: Host,
    now: int,
    event: str,
    detail: str = "",
) -> bool:
    """Drop what has to be dropped, and count it; returns whether `newcomer` may join.

    The caller has sent what could be sent (FC-6); what is inflight is not in the queue, so it is never dropped (FC-15).
    The host is told the `event` once per episode, which the caller ends.
    """
    while not mqueue.fits(newcomer, limits):
        if mqueue.length and has_expired(mqueue.head(), now):
            counters.count_drop("expired", mqueue.pop().qos)  # nothing that lives makes room for it
            continue
        if not mqueue.overflowing:
            mqueue.overflowing = True
            host.report(event, detail)
        waiting = mqueue.length
        victim = mqueue.victim(newcomer, limits)
        counters.count_drop("queue_full", victim.qos)
        if mqueue.length == waiting:  # "is newcomer" would not do: the same message may wait already
            return False
    return True
