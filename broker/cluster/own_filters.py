"""The topic filters of this cell's clients, each once, and which cells know them (CL-1).

The router says when the first client of a filter comes, and when the last one has gone.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple, final

from broker.broker import Broker
from broker.cluster.cell import Cell
from broker.cluster.controls import CONTROLS
from broker.cluster.crossings import Crossings
from broker.cluster.remote_filters import RemoteFilters
from broker.cluster.retained_order import RetainedOrder
from broker.cluster.slots import home_of
from broker.routing.other_cells import OtherCells
from broker.runtime.clock import SECOND
from broker.runtime.timers import Timer
from config.cluster import CELL
from protocol.publish import Publish
from protocol.subscribe import Subscription
from protocol.topics import SHARE_PREFIX, split_share
from session.outbound import Outbound

if TYPE_CHECKING:
    from broker.cluster.cell_link import CellLink
    from broker.cluster.remote_groups import RemoteGroup

PATIENCE: Final = 10 * SECOND
"""Microseconds for which SUBACK waits for other cells."""
TAG: Final = 0x3F
"""The bits of a tag in `RemoteFilters` that say the place of the link; the others say which connection it was."""
_NOWHERE: Final[list[Outbound]] = []


class OwnFilter(NamedTuple):
    """A filter of this cell."""

    topic_filter: str
    kept: bool
    """Whether a kept session has it."""
    ask: int = 0
    """Which SUBSCRIBE of it this is: behind the answer to an earlier one the other cell may read UNSUBSCRIBE."""


@final
class OwnFilters(OtherCells):
    """Tells the links of filters, and waits for their answers."""

    def __init__(self, cell: Cell, broker: Broker, order: RetainedOrder) -> None:
        self._cell = cell
        self._broker = broker
        self._router = broker.router
        self._order = order
        self.links: list[CellLink] = []
        self.crossings: Crossings | None = None
        """None = there is a journal."""
        self.remote = RemoteFilters()
        """Filters of other cells."""
        self._kept: set[str] = set()
        """Filters that kept sessions have: other cells know them from their journals, too."""
        self._asks = 0
        self._unknown: dict[str, dict[int, int]] = {}
        """Cells that have not answered yet, by filter: what they have to answer."""
        self._waiting: dict[str, list[PendingSuback]] = {}
        self._joined: dict[Outbound, dict[str, RemoteGroup]] = {}
        """The groups with another home, by session and name."""
        self._pending: set[PendingSuback] = set()

    def all(self) -> list[OwnFilter]:
        """Each filter once."""
        held = {
            topic_filter: False
            for client in self._broker.clients.known()
            if not client.session.sender.limits.of_cell
            for topic_filter in client.session.subscriptions or ()
            if _crosses(topic_filter)
        }
        held |= dict.fromkeys(map(_inner, self._router.shared.queues), False) | dict.fromkeys(self._kept, True)
        return [OwnFilter(name, kept) for name, kept in held.items() if _crosses(name)]

    # -- told by the router

    def subscribes(self, outbound: Outbound, subscription: Subscription, is_first: bool) -> bool:
        """A session subscribes; False = to a group whose home is another cell. `is_first`: of this cell."""
        topic_filter = subscription.topic_filter
        link = self._home_of(topic_filter)
        if link is None:
            if _crosses(topic_filter) and not outbound.sender.limits.of_cell:  # CL-2
                self._begin(topic_filter, outbound.journal is not None, is_first)
            return True
        joined = self._joined.setdefault(outbound, {})
        group = joined.get(topic_filter)
        if group is not None:
            group.change(subscription)
        else:
            joined[topic_filter] = link.groups.join(outbound, subscription)
            self._router.shared.elsewhere[outbound] = list(joined)
        if link.lives:
            self._unknown.setdefault(topic_filter, {})[link.number] = 0
        return False

    def leaves(self, outbound: Outbound, name: str) -> bool:
        """A session leaves a group; False = its home is this cell."""
        if self._home_of(name) is None:
            return False
        elsewhere, joined = self._router.shared.elsewhere, self._joined.get(outbound, {})
        group = joined.pop(name, None)
        if group is not None:
            group.leave()
            elsewhere[outbound] = list(joined)
        if not joined:
            self._joined.pop(outbound, None)
            elsewhere.pop(outbound, None)
        if name in self._unknown and not any(name in each for each in self._joined.values()):
            del self._unknown[name]
            self._answer(name)
        return True

    def ended(self, topic_filter: bytes) -> None:
        """No client of this cell has this filter any more."""
        name = topic_filter.decode()
        self._kept.discard(name)
        if _crosses(name):
            for link in self.links:
                link.tell_end(name)
            self._unknown.pop(name, None)
            self._answer(name)

    def links_of(self, topic: bytes) -> list[Outbound]:
        """The links to cells that have this topic as a filter, beside those with a subscription to it."""
        links, found = self.links, self.remote.tags(topic)
        if not found:
            return _NOWHERE
        return [links[place].client.session.outbound for place in dict.fromkeys([each & TAG for each in found])]

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

    def group_began(self, name: str) -> None:
        """A group whose home is this cell begins: its queue gets what is published at all cells."""
        topic_filter = _inner(name)
        if _crosses(topic_filter):
            is_first = not self._router.has_clients(topic_filter.encode())
            self._begin(topic_filter, self._broker.sessions.durable, is_first)

    def _begin(self, topic_filter: str, kept: bool, is_first: bool) -> None:
        """Tell the other cells of a filter, or that a kept session has it."""
        begins_keeping = kept and topic_filter not in self._kept
        if not is_first and not begins_keeping:
            return
        if kept:
            self._kept.add(topic_filter)
        self._asks += 1
        told = OwnFilter(topic_filter, kept, self._asks)
        asked = {link.number: told.ask for link in self.links if link.tell(told)}
        if asked:
            self._unknown[topic_filter] = asked

    def crossed(self) -> int:
        """CL-3: the batch of deliveries to other cells that has to be acknowledged; 0 = there is none."""
        return 0 if self.crossings is None else self.crossings.crossed()

    def number(self, publish: Publish) -> None:
        """Give a PUBLISH with RETAIN that is about to be routed a time that no other one of this cell has."""
        self._order.number(publish)

    def retained(self, publish: Publish, publisher: Outbound | None) -> None:
        """Each cell has all retained messages: send it to those that no subscription has given it to."""
        for pending in self._pending:
            pending.newer.add(publish.topic)
        if publish.topic.startswith(CONTROLS) or (publisher is not None and publisher.sender.limits.of_cell):
            return
        self._order.stored(publish)
        receivers = self._router.late_receivers(publish.topic)
        reached = {route.outbound for route in [*receivers.routes, *receivers.special]}
        for link in self.links:
            outbound = link.client.session.outbound
            if outbound not in reached:
                outbound.offer(publish, publisher)

    # -- told by the links

    def known_at(self, cell: int, told: list[OwnFilter]) -> None:
        """A cell knows these now, or does not live any more."""
        for topic_filter, _, ask in told:
            unknown = self._unknown.get(topic_filter)
            if unknown is not None and unknown.get(cell) == ask:
                del unknown[cell]
                if not unknown:
                    del self._unknown[topic_filter]
                    self._answer(topic_filter)

    def _answer(self, topic_filter: str) -> None:
        for waiting in self._waiting.pop(topic_filter, []):
            waiting.one_is_known()

    # -- asked by SUBSCRIBE

    def unknown(self, topic_filters: list[str]) -> bool:
        """Whether some of these are not known at each cell that lives."""
        return any(self._asked(each) in self._unknown for each in topic_filters)

    def _asked(self, topic_filter: str) -> str:
        """What other cells are asked for: a group whose home is this one needs its filter."""
        if topic_filter.startswith(SHARE_PREFIX) and self._home_of(topic_filter) is None:
            return _inner(topic_filter)
        return topic_filter

    def when_known(
        self, topic_filters: list[str], then: Callable[[set[bytes]], None], too_late: Callable[[], None]
    ) -> None:
        """Call `then` once they are."""
        unknown = [each for each in map(self._asked, topic_filters) if each in self._unknown]
        waiting = PendingSuback(len(unknown), then, too_late, self._pending)
        for each in unknown:
            self._waiting.setdefault(each, []).append(waiting)
        self._broker.wheel.add(self._broker.wheel.now + PATIENCE, waiting)


@final
class PendingSuback(Timer):
    """A SUBACK that waits for other cells."""

    def __init__(
        self,
        count: int,
        then: Callable[[set[bytes]], None],
        too_late: Callable[[], None],
        pending: "set[PendingSuback]",
    ) -> None:
        self.newer: set[bytes] = set()
        """Topics of retained messages that the new subscription has got as they were published."""
        self._left = count
        self._then = then
        self._too_late = too_late
        self._pending = pending
        pending.add(self)

    def one_is_known(self) -> None:
        """One filter less to wait for."""
        self._left -= 1
        if self._left == 0:
            self._pending.discard(self)
            self._then(self.newer)

    def wanted(self) -> bool:
        """False once it is answered."""
        return self._left > 0

    def due(self, now: int) -> None:
        """It is too late."""
        if self._left > 0:
            self._left = 0
            self._pending.discard(self)
            self._too_late()


def _inner(name: str) -> str:
    """The filter of a group; of what is not shared, the same."""
    return split_share(name)[1].decode()


def _crosses(topic_filter: str) -> bool:
    """Whether other cells are told of it: not of groups, nor of what cells tell each other."""
    return not topic_filter.startswith((SHARE_PREFIX, f"{CELL}/"))
