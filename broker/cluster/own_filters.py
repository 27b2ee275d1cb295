"""The topic filters of this cell's clients, each once, and which cells know them (CL-1)."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, final

from broker.cluster.retained_order import RetainedOrder
from broker.routing.other_cells import OtherCells
from broker.runtime.clock import SECOND
from broker.runtime.timers import Timer, Wheel
from protocol.publish import Publish
from session.outbound import Outbound

if TYPE_CHECKING:
    from broker.cluster.cell_link import CellLink

PATIENCE: Final = 10 * SECOND
"""Microseconds for which SUBACK waits for other cells."""


@final
class OwnFilters(OtherCells):
    """Counts subscriptions by filter, tells the links of the first and the last one, and waits for their answers."""

    def __init__(self, wheel: Wheel, order: RetainedOrder, reached: Callable[[bytes], set[Outbound]]) -> None:
        """`reached` returns the sessions that get a topic, links among them."""
        self._wheel = wheel
        self._order = order
        self._reached = reached
        self.links: list[CellLink] = []
        self._count: dict[str, int] = {}
        self._unknown: dict[str, set[int]] = {}
        """Cells that have not answered yet, by filter."""
        self._waiting: dict[str, list[PendingSuback]] = {}

    def all(self) -> list[str]:
        """Each filter once."""
        return list(self._count)

    # -- told by the router

    def began(self, outbound: Outbound, topic_filter: str) -> None:
        """A session has subscribed."""
        if not _crosses(outbound, topic_filter):
            return
        count = self._count.get(topic_filter, 0)
        self._count[topic_filter] = count + 1
        if count:
            return
        asked = {link.number for link in self.links if link.tell(topic_filter)}
        if asked:
            self._unknown[topic_filter] = asked

    def ended(self, outbound: Outbound, topic_filter: str) -> None:
        """A subscription has ended."""
        if not _crosses(outbound, topic_filter):
            return
        count = self._count.get(topic_filter, 0) - 1
        if count > 0:
            self._count[topic_filter] = count
            return
        self._count.pop(topic_filter, None)
        for link in self.links:
            link.tell_end(topic_filter)

    def retained(self, publish: Publish, publisher: Outbound | None) -> None:
        """Each cell has all retained messages: send it to those that no subscription has given it to."""
        if publish.topic.startswith(b"$") or (publisher is not None and publisher.sender.limits.of_cell):
            return
        self._order.stored(publish)
        reached = self._reached(publish.topic)
        for link in self.links:
            outbound = link.client.session.outbound
            if outbound not in reached:
                outbound.offer(publish, publisher)

    # -- told by the links

    def known_at(self, cell: int, topic_filters: list[str]) -> None:
        """A cell knows these now, or does not live any more."""
        for topic_filter in topic_filters:
            unknown = self._unknown.get(topic_filter)
            if unknown is None:
                continue
            unknown.discard(cell)
            if not unknown:
                del self._unknown[topic_filter]
                for waiting in self._waiting.pop(topic_filter, []):
                    waiting.one_is_known()

    # -- asked by SUBSCRIBE

    def unknown(self, topic_filters: list[str]) -> bool:
        """Whether some of these are not known at each cell that lives."""
        return any(each in self._unknown for each in topic_filters)

    def when_known(self, topic_filters: list[str], then: Callable[[], None], too_late: Callable[[], None]) -> None:
        """Call `then` once they are."""
        unknown = [each for each in topic_filters if each in self._unknown]
        waiting = PendingSuback(len(unknown), then, too_late)
        for each in unknown:
            self._waiting.setdefault(each, []).append(waiting)
        self._wheel.add(self._wheel.now + PATIENCE, waiting)


@final
class PendingSuback(Timer):
    """A SUBACK that waits for other cells."""

    def __init__(self, count: int, then: Callable[[], None], too_late: Callable[[], None]) -> None:
        self._left = count
        self._then = then
        self._too_late = too_late

    def one_is_known(self) -> None:
        """One filter less to wait for."""
        self._left -= 1
        if self._left == 0:
            self._then()

    def wanted(self) -> bool:
        """False once it is answered."""
        return self._left > 0

    def due(self, now: int) -> None:
        """It is too late."""
        if self._left > 0:
            self._left = 0
            self._too_late()


def _crosses(outbound: Outbound, topic_filter: str) -> bool:
    """Whether other cells are told: not of the filters of links (CL-2), nor of topics that each cell has for itself."""
    return not outbound.sender.limits.of_cell and not topic_filter.startswith("$")
