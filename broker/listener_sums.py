"""What the walk over all sessions adds up, by listener: for the topics under $SYS, Prometheus and the dashboard.

With 100,000 sessions this is the largest part of what operators cost, so it is one of the hot files.
"""

from collections.abc import Iterator
from typing import final

from broker.clients import Client
from broker.totals import Sums
from protocol.topics import SHARE_PREFIX
from session.session import Session


@final
class ListenerSums:
    """The sums of one listener: of the sessions whose last connection came by it."""

    def __init__(self) -> None:
        self.sums = Sums()
        self.sessions = 0
        self.connected = 0
        self.congested = 0
        self.window_full = 0
        """Sessions whose window is full."""
        self.inflight = 0
        self.queued = 0
        self.queued_bytes = 0
        self.subscriptions = 0
        self.shared = 0

    def add(self, session: Session, distributions: bool) -> int:
        """Add one session; returns the work as a number of sessions and subscriptions."""
        sender = session.sender
        counters = sender.counters
        self.sums.add(counters)
        if distributions:
            self.sums.add_distributions(counters)
        self.sessions += 1
        if sender.connected:
            self.connected += 1
        if sender.congested:
            self.congested += 1
        window = sender.window
        inflight = len(window.entries)
        if inflight:
            self.inflight += inflight
            if inflight >= window.limit:
                self.window_full += 1
        mqueue = session.outbound.mqueue
        if mqueue is not None:
            self.queued += mqueue.length
            self.queued_bytes += mqueue.bytes
        filters = session.subscriptions
        if not filters:
            return 1
        for topic_filter in filters:
            if topic_filter.startswith(SHARE_PREFIX):
                self.shared += 1
            else:
                self.subscriptions += 1
        return 1 + len(filters)


def add_some(
    clients: Iterator[Client],
    walk: int,
    listeners: dict[str, ListenerSums],
    distributions: bool,
    work: int,
    seen: list[Client],
) -> bool:
    """Add the next sessions, until their work reaches `work`; returns whether there may be more.

    `walk`: the number of this walk. The clients are appended to `seen`.
    """
    for client in clients:
        client.walk = walk
        session = client.session
        sums = listeners.get(session.listener)
        if sums is None:
            sums = listeners[session.listener] = ListenerSums()
        work -= sums.add(session, distributions)
        seen.append(client)
        if work <= 0:
            return True
    return False
