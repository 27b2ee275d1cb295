"""A full address, and what waits for room in it (FC-25, FC-26)."""

from collections import OrderedDict
from typing import TYPE_CHECKING, Final, final

from broker.runtime.clock import SECOND
from broker.runtime.timers import Timer
from protocol.publish import Publish
from session.address import DROP, NOT_WATCHED, Address, Watcher
from session.parked import weight
from session.session import Session

if TYPE_CHECKING:
    from broker.addresses.paging.paging import Pages
    from broker.broker import Broker


LOOK: Final = SECOND
"""Microseconds between two looks at an address: whether something has waited for too long, or nothing is left to do."""
AT_ONCE: Final = 256
"""PUBLISHes that are routed, or given up, in one turn of the loop."""


@final
class Parked:
    """A PUBLISH whose acknowledgement is withheld."""

    def __init__(self, backlog: "Backlog", publish: Publish, session: Session, now: int, will: bool = False) -> None:
        self.backlog = backlog
        self.publish = publish
        self.session = session
        self.client_id = session.client_id
        self.will = will
        """Whether it is a will, which waits in line behind others, but is neither refused nor answered."""
        self.since = now
        self.connection = session.inbound.connection
        """The number of its session's connection on which it came."""
        self.weight = weight(publish)
        """Bytes that it takes up of its session's producer window."""
        self.left_behind = 0
        """The same, of what ended sessions may leave behind; 0 = its session goes on."""

    def written(self, now: int) -> None:
        """FC-26: it is on disk. That is as good as routed: its client is answered."""
        self.backlog.written(self, now)

    def not_written(self, now: int) -> None:
        """FC-26: the disk does not take it after all."""
        self.backlog.not_written(self, now)


@final
class Backlog(Watcher):
    """One episode: from when a PUBLISH finds an address full until it is down to half its limit and nothing waits.

    With `block`, what waits is here, first in, first out. With `page` it is in the pages, and acknowledged when it has
    got to the disk.
    """

    def __init__(self, broker: "Broker", address: Address) -> None:
        self.address = address
        self.pages: Pages | None = None
        """None where the address does not page."""
        self.scheduled = False
        """Whether it is in line to be settled."""
        self.timer: BacklogTimer | None = None
        self._broker = broker
        self._parked: OrderedDict[Parked, None] = OrderedDict()
        self._bytes = 0  # payload of what is parked
        self._left_behind = 0  # what of it counts for sessions that have ended

    def on_room(self) -> None:
        """What is next may fit."""
        self._broker.addresses.schedule(self)

    # -- coming

    def rejects(self, publish: Publish) -> bool:
        """Whether with `publish` there would be too much, held and parked (FC-25)."""
        threshold = self.address.rule.reject_threshold_bytes
        return 0 <= threshold < self.address.size + self._bytes + publish.size

    def take(self, parked: Parked) -> bool:
        """Let a PUBLISH wait behind the others; False if there is no room on disk."""
        pages = self.pages
        if pages is None:
            self._parked[parked] = None
            self._bytes += parked.publish.size
        elif not pages.take(parked):
            return False
        self._count()
        if self.address.waiting == 1:
            self.on_room()  # to find out for how much room it waits
        return True

    # -- going

    def settle(self, now: int, most: int) -> int:
        """Route what there is room for, `most` PUBLISHes at once; returns how many."""
        count = 0
        while count < most and self._route_next(now):
            count += 1
        if count == most:
            self.on_room()
        return count

    def _route_next(self, now: int) -> bool:
        if self.pages is not None:
            return self._route_paged(self.pages, now)
        parked = self._first()
        if parked is None:
            self.address.mark = NOT_WATCHED
            return False
        if not parked.will and not self._fits(parked.publish, parked.client_id):
            return False
        self._route(parked, now)
        return True

    def _route(self, parked: Parked, now: int) -> None:
        self._remove(parked)
        matched = self._broker.publish_late(parked.publish, parked.client_id, now)
        self._answer(parked, matched, now)

    def _route_paged(self, pages: "Pages", now: int) -> bool:
        record = pages.head()
        if record is None:
            self._count()
            self.address.mark = NOT_WATCHED
            return False
        if not self._fits(record.publish, record.client_id):
            return False
        pages.pop()
        self._count()
        self._broker.publish_late(record.publish, record.client_id, now)
        return True

    def _fits(self, publish: Publish, client_id: str) -> bool:
        broker = self._broker
        size = broker.router.size(publish, broker.outbound(client_id))
        if self.address.takes(size):
            return True
        self.address.watch(size)
        return False

    def _answer(self, parked: Parked, matched: bool, now: int) -> None:
        """The PUBLISH counts as done (FC-21)."""
        if parked.will:
            return
        session = parked.session
        expected = self._unpark(parked, now)
        if parked.publish.qos == 0:
            return
        if expected:
            session.answer(parked.publish, matched, now)
            session.outbound.host.wake()
        else:
            session.remember(parked.publish, now)

    def _unpark(self, parked: Parked, now: int) -> bool:
        """Returns whether its client waits for the answer."""
        self._broker.addresses.producers.remove(parked)
        session = parked.session
        expected = session.unpark(parked.publish, parked.connection, now - parked.since)
        session.let_in_soon(now)  # FC-22: if it is refused, its id is free
        return expected

    # -- pages

    def written(self, parked: Parked, now: int) -> None:
        """FC-26: it is on disk."""
        self._broker.addresses.count_paged(self.address)
        self._answer(parked, True, now)

    def not_written(self, parked: Parked, now: int) -> None:
        """FC-26: the disk does not take it."""
        self._count()
        addresses = self._broker.addresses
        if parked.will:
            self._broker.publish_late(parked.publish, parked.client_id, now)
        elif self.address.rule.page_full_policy == DROP:
            addresses.count_dropped(parked.session, self.address)
            self._answer(parked, True, now)
        else:
            self._give_up(parked, now)

    # -- giving up

    def _give_up(self, parked: Parked, now: int) -> None:
        """Answer what is parked as `fail` does (FC-25)."""
        session = parked.session
        expected = self._unpark(parked, now)
        self._broker.addresses.refuse(session, parked.publish, self.address, now, expected)
        if parked.publish.qos and not (expected and session.version == 5):
            # Nothing tells the client which of them has failed. It sends again what has no answer, in order: so what it
            # sent behind this one may not be routed before (FC-9).
            for other in self._broker.addresses.producers.parked(session):
                if other.backlog is self and not session.expects(other.publish, other.connection):
                    self.discard(other, now)

    def discard(self, parked: Parked, now: int) -> None:
        """Forget what nobody has promised its client to route, unless it is on its way to the disk."""
        if self.pages is not None:
            return
        self._remove(parked)
        self._unpark(parked, now)
        self._broker.addresses.refuse(parked.session, parked.publish, self.address, now, False)

    def leave_behind(self, parked: Parked, now: int) -> None:
        """The session has ended, and no window bounds any more what clients leave behind that come and go: the limit of
        the address does, once more."""
        if self.pages is not None:
            return
        if self._left_behind + parked.weight > self.address.rule.max_size_bytes:
            self.discard(parked, now)
        else:
            parked.left_behind = parked.weight
            self._left_behind += parked.weight

    # -- time

    def watch_time(self, now: int) -> None:
        """Look at the clock again before long: in time for what has waited longest."""
        at = now + LOOK
        parked = self._first()
        timeout = self.address.rule.block_timeout
        if parked is not None and timeout:
            at = min(at, parked.since + timeout)
        timer = self.timer
        if timer is None or timer.at <= now or at < timer.at:
            self.timer = BacklogTimer(self)
            self._broker.wheel.add(at, self.timer)

    def look(self, now: int) -> None:
        """Give up what has waited for too long, and end the episode if there is room again."""
        address = self.address
        timeout = address.rule.block_timeout
        for _ in range(AT_ONCE):
            parked = self._first()
            if parked is None or not timeout or now < parked.since + timeout:
                break
            if parked.will:
                self._route(parked, now)
            else:
                self._remove(parked)
                self._give_up(parked, now)
        if address.waiting:
            self.on_room()  # those who are subscribed may have changed
        elif address.size <= address.rule.max_size_bytes // 2:
            if self.pages is not None:
                self.pages.close()
            self.timer = None
            self._broker.addresses.end(self)
            return
        self.watch_time(now)

    # -- the line

    def _first(self) -> Parked | None:
        for parked in self._parked:
            return parked
        return None

    def _remove(self, parked: Parked) -> None:
        del self._parked[parked]
        self._bytes -= parked.publish.size
        self._left_behind -= parked.left_behind
        self._count()

    def _count(self) -> None:
        self.address.waiting = len(self._parked) if self.pages is None else self.pages.length


@final
class BacklogTimer(Timer):
    """Has a full address looked at."""

    def __init__(self, backlog: Backlog) -> None:
        self.backlog = backlog

    def wanted(self) -> bool:
        """Not when another one has replaced it, or the episode is over."""
        return self.backlog.timer is self

    def due(self, now: int) -> None:
        """Look, and come back if need be."""
        if self.wanted():
            self.backlog.look(now)
