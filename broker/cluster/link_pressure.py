"""CL-4: the queue of a link drops no QoS 1 and 2. When much waits in it, publishers are told (FC-34, `reject`).

To be asked costs something for each message. So a link tells only from half of its queue on, until a quarter is left.
"""

from typing import final

from broker.broker import Broker
from broker.cluster.cell_link import CellLink
from broker.runtime.timers import TICK, Timer
from config.cluster import CELL, CELL_FULL
from session.backpressure import Backpressure
from session.session import use_limits


@final
class LinkPressure(Timer):
    """Looks at all links, each tick."""

    def __init__(self, broker: Broker, links: list[CellLink]) -> None:
        self._broker = broker
        self._links = links
        self._telling: set[CellLink] = set()
        self.due(broker.wheel.now)

    def due(self, now: int) -> None:
        """Look again in a tick."""
        router, before = self._broker.router, len(self._telling)
        most = self._broker.settings.profiles[CELL_FULL].max_mqueue_bytes
        for link in self._links:
            queue = link.client.session.outbound.mqueue
            waits = 0 if queue is None else queue.bytes
            if waits > most // (4 if link in self._telling else 2):
                self._tell(link, now)
            else:
                self._tell_no_more(link)
        router.backpressure = self._broker.settings.backpressure or len(self._telling) > 0
        if len(self._telling) != before:
            router.forget_topics()
        self._broker.wheel.add(now + TICK, self)

    def _tell(self, link: CellLink, now: int) -> None:
        session = link.client.session
        if link not in self._telling:
            session.store_offline(now)  # it has been accepted: it may not find the queue full
        use_limits(session, self._broker.settings.profiles[CELL_FULL])  # again: a reload gives it the others
        if link in self._telling:
            return
        self._telling.add(link)
        backlog = session.outbound.begin_backlog()
        if backlog.backpressure is None:
            backlog.backpressure = Backpressure()
        backlog.backpressure.note_presence(session.connected, now)

    def _tell_no_more(self, link: CellLink) -> None:
        if link in self._telling:
            self._telling.remove(link)
            use_limits(link.client.session, self._broker.settings.profiles[CELL])
