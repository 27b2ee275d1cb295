"""The topic filters of this cell's clients, each once, and which cells know them (CL-1)."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, final

from broker.cluster.cell import Cell
from broker.cluster.retained_order import RetainedOrder
from broker.cluster.slots import home_of
from broker.routing.other_cells import OtherCells
from broker.routing.shared_queues import SharedQueues
from broker.runtime.clock import SECOND
from broker.runtime.timers import Timer, Wheel
from protocol.publish import Publish
from protocol.subscribe import Subscription
from protocol.topics import SHARE_PREFIX, split_share
from session.outbound import Outbound

if TYPE_CHECKING:
    from broker.cluster.cell_link import CellLink
    from broker.cluster.remote_groups import RemoteGroup

PATIENCE: Final = 10 * SECOND
"""Microseconds for which SUBACK waits for other cells."""


@final
class OwnFilters(OtherCells):
    """Counts subscriptions by filter, tells the links of the first and the last one, and waits for their answers."""

    def __init__(
        self,
        cell: Cell,
        wheel: Wheel,
        order: RetainedOrder,
        shared: SharedQueues,
        reached: Callable[[bytes], set[Outbound]],
    ) -> None:
        """`reached` returns the sessions that get a topic, links among them."""
        self._cell = cell
        self._wheel = wheel
        self._shared = shared
        self._order = order
        self._reached = reached
        self.links: list[CellLink] = []
        self._count: dict[str, int] = {}
        self._unknown: dict[str, set[int]] = {}
        """Cells that have not answered yet, by filter."""
        self._waiting: dict[str, list[PendingSuback]] = {}
        self._joined: dict[Outbound, dict[str, RemoteGroup]] = {}
        """The groups with another home, by session and name."""

    def all(self) -> list[str]:
        """Each filter once."""
        return list(self._count)

    # -- told by the router

    def subscribes(self, outbound: Outbound, subscription: Subscription, is_new: bool) -> bool:
        """A session subscribes; False = to a group whose home is another cell."""
        topic_filter = subscription.topic_filter
        link = self._home_of(topic_filter)
        if link is None:
            if is_new and not topic_filter.startswith("$") and not outbound.sender.limits.of_cell:  # CL-2
                self._begin(topic_filter)
            return True
        joined = self._joined.setdefault(outbound, {})
        group = joined.get(topic_filter)
        if group is not None:
            group.change(subscription)
        else:
            joined[topic_filter] = link.groups.join(outbound, subscription)
            self._shared.elsewhere[outbound] = list(joined)
        if link.is_open():
            self._unknown.setdefault(topic_filter, set()).add(link.number)
        return False

    def unsubscribes(self, outbound: Outbound, topic_filter: str, had_it: bool) -> bool:
        """A subscription ends; False = to a group whose home is another cell."""
        if self._home_of(topic_filter) is None:
            if had_it and not topic_filter.startswith("$") and not outbound.sender.limits.of_cell:
                self._end(topic_filter)
            return True
        joined = self._joined.get(outbound, {})
        group = joined.pop(topic_filter, None)
        if group is not None:
            group.leave()
            self._shared.elsewhere[outbound] = list(joined)
        if not joined:
            self._joined.pop(outbound, None)
            self._shared.elsewhere.pop(outbound, None)
        return False

    def detached(self, outbound: Outbound) -> None:
        """The client of a session is connected no longer."""
        for group in self._joined.get(outbound, {}).values():
            group.detached()

    def _home_of(self, topic_filter: str) -> "CellLink | None":
        """The link to the home of a shared subscription; None = that is here, or it is not shared."""
        if not topic_filter.startswith(SHARE_PREFIX) or not split_share(topic_filter)[0]:
            return None
        home = home_of(topic_filter, self._cell.cells)
        return None if home == self._cell.number else self.links[self._cell.others.index(home)]

    def group_changed(self, name: str, begins: bool) -> None:
        """A group whose home is this cell begins or ends: its queue gets what is published at all cells."""
        topic_filter = split_share(name)[1].decode()
        if topic_filter.startswith("$"):
            return
        if begins:
            self._begin(topic_filter)
        else:
            self._end(topic_filter)

    def _begin(self, topic_filter: str) -> None:
        count = self._count.get(topic_filter, 0)
        self._count[topic_filter] = count + 1
        if count:
            return
        asked = {link.number for link in self.links if link.tell(topic_filter)}
        if asked:
            self._unknown[topic_filter] = asked

    def _end(self, topic_filter: str) -> None:
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
        return any(self._asked(each) in self._unknown for each in topic_filters)

    def _asked(self, topic_filter: str) -> str:
        """What other cells are asked for: a group whose home is this one needs its filter."""
        if topic_filter.startswith(SHARE_PREFIX) and self._home_of(topic_filter) is None:
            return split_share(topic_filter)[1].decode()
        return topic_filter

    def when_known(self, topic_filters: list[str], then: Callable[[], None], too_late: Callable[[], None]) -> None:
        """Call `then` once they are."""
        unknown = [each for each in map(self._asked, topic_filters) if each in self._unknown]
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
