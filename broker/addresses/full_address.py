"""A full address, and the PUBLISHes that wait for room in it: parked (FC-25), or paged (FC-26)."""

from collections import OrderedDict
from typing import TYPE_CHECKING, Final, final

from broker.runtime.clock import SECOND
from broker.runtime.timers import Timer
from protocol.publish import Publish
from session.address import NOT_WATCHED, UNLIMITED, Address, Watcher
from session.backpressure import Backpressure
from session.cost import cost
from session.parked import weight
from session.session import Session

if TYPE_CHECKING:
    from broker.addresses.pages import Pages
    from broker.addresses.policy import Addresses


CHECK_PERIOD: Final = SECOND
"""Microseconds between two checks of an address: for `block_timeout`, and for the end of the episode."""
AT_ONCE: Final = 256
"""PUBLISHes that are routed, or timed out, in one turn of the loop."""


@final
class Parked:
    """A PUBLISH that waits for room, and whose acknowledgement is withheld."""

    def __init__(self, full: "FullAddress", publish: Publish, session: Session, now: int, will: bool = False) -> None:
        self.full = full
        self.publish = publish
        self.session = session
        self.client_id = session.client_id
        self.will = will
        """Whether it is a will, which is queued behind others, but neither refused nor acknowledged."""
        self.since = now
        self.connection = session.inbound.connection
        """The number of its session's connection on which it came."""
        self.weight = weight(publish)
        """Bytes of its session's producer window that it uses."""
        self.cost = cost(publish)
        """Bytes of the address's limits that it uses: of `reject_threshold_bytes`, and of that for ended sessions."""
        self.orphaned = 0
        """Bytes of the address's limit for ended sessions that it uses; 0 = its session has not ended."""


@final
class FullAddress(Watcher):
    """One episode: from the PUBLISH that finds an address full until it is down to half its limit and nothing waits.

    With `block`, PUBLISHes wait here, first in, first out. With `page` they wait in the pages, and are acknowledged.
    If a restart has changed the policy, what is paged already goes first.
    """

    def __init__(self, addresses: "Addresses", address: Address) -> None:
        self.address = address
        self.pages: Pages | None = None
        """None if the address does not page, and has not done so before a restart."""
        self.scheduled = False
        """Whether it is queued for `settle`."""
        self.timeout = address.rule.block_timeout
        """Microseconds after which a PUBLISH that waits is refused; 0 = never."""
        self.timer: FullAddressTimer | None = None
        self._addresses = addresses
        self._parked: OrderedDict[Parked, None] = OrderedDict()
        self._bytes = 0  # what the parked ones cost
        self._draining = False  # an operator has asked for it: what waits is routed although there is no room
        self._orphaned = 0  # parked by sessions that have ended
        self._waits_for: Backpressure | None = None  # FC-34: the queue that had no room

    def on_room(self) -> None:
        """The first PUBLISH may fit now."""
        self._addresses.schedule(self)

    def shorten(self, timeout: int) -> None:
        """FC-34: a PUBLISH waits no longer than this for room in a queue."""
        self.timeout = min(self.timeout or timeout, timeout)

    # -- parking

    def rejects(self, publish: Publish) -> bool:
        """Whether `publish` would exceed `reject_threshold_bytes` (FC-25)."""
        threshold = self.address.rule.reject_threshold_bytes
        return 0 <= threshold < self.address.size + self._bytes + cost(publish)

    def add(self, parked: Parked) -> None:
        """Park a PUBLISH behind the others."""
        self._parked[parked] = None
        self._bytes += parked.cost
        self.note_added()

    def note_added(self) -> None:
        """One more PUBLISH waits, or several."""
        first = self.address.waiting == 0
        self._count()
        if first:
            self.on_room()  # `settle` sets the address's mark for its size

    # -- routing

    def settle(self, now: int, most: int) -> int:
        """Route up to `most` PUBLISHes that fit; returns how many."""
        count = 0
        while count < most and self._route_next(now):
            count += 1
        if count == most:
            self.on_room()
        return count

    def _route_next(self, now: int) -> bool:
        if self.address.waiting and not self._addresses.may_route():
            return False  # `check` tries again
        if self.pages is not None and self.pages.length:
            return self._route_page(self.pages, now)
        parked = self._first()
        if parked is None:
            self.address.mark = NOT_WATCHED
            return False
        if not parked.will and not self._fits(parked.publish, parked.client_id, now):
            return False
        self._route(parked, now)
        return True

    def _route(self, parked: Parked, now: int) -> None:
        self._remove(parked)
        matched = self._addresses.publish_late(parked.publish, parked.client_id, now)
        self._answer(parked, matched, now)

    def _route_page(self, pages: "Pages", now: int) -> bool:
        page = pages.head()
        if page is None:
            self.address.mark = NOT_WATCHED  # it is being read
            return False
        if not self._fits(page.publish, page.client_id, now):
            return False
        pages.pop()
        self._count()
        self._addresses.publish_late(page.publish, page.client_id, now)
        return True

    def drain(self) -> None:
        """Route everything that waits, although the sessions then hold more than the limit."""
        self._draining = True
        self.on_room()

    def _fits(self, publish: Publish, client_id: str, now: int) -> bool:
        """Whether there is room in the address, and in the receivers' queues (FC-34). If not, wait for it."""
        if self._draining:
            return True
        size = self._addresses.size(publish, client_id)
        if not self.address.fits(size):
            self.address.watch(size)
            return False
        lacking = self._addresses.lacking(publish, client_id, now)
        if lacking is None:
            self.end_waiting()
            return True
        if self._waits_for is not lacking:
            self.end_waiting()
            self._waits_for = lacking
            lacking.wait(self)
        return False

    def end_waiting(self) -> None:
        """FC-34: wait for no queue any more; it is the next one's turn."""
        if self._waits_for is not None:
            self._waits_for.forget(self)
            self._waits_for.call()
            self._waits_for = None

    def _answer(self, parked: Parked, matched: bool, now: int) -> None:
        """Acknowledge a PUBLISH (FC-21)."""
        if parked.will:
            return
        expected = self._unpark(parked, now)
        parked.session.inbound.answer_late(parked.publish, matched, expected, now)

    def _unpark(self, parked: Parked, now: int) -> bool:
        """Take it out of the producer window; returns whether its client expects the acknowledgement."""
        self._addresses.producers.remove(parked)
        return parked.session.inbound.unpark(parked.publish, parked.connection, now - parked.since, now)

    # -- refusing and discarding

    def _give_up(self, parked: Parked, now: int) -> None:
        """Refuse a parked PUBLISH as `fail` does (FC-25)."""
        session = parked.session
        expected = self._unpark(parked, now)
        self._addresses.refuse(session, parked.publish, self.address, now, expected)
        if parked.publish.qos and not (expected and session.version == 5):
            # The client cannot know which PUBLISH failed. It resends all unacknowledged ones in order, so those behind
            # this one must not be routed first (FC-9).
            for other in self._addresses.producers.parked(session):
                if other.full is self and not session.inbound.expects(other.publish, other.connection):
                    self.discard(other, now)

    def discard(self, parked: Parked, now: int) -> None:
        """Discard an unacknowledged PUBLISH."""
        self._remove(parked)
        self._unpark(parked, now)
        self._addresses.refuse(parked.session, parked.publish, self.address, now, False)

    def orphan(self, parked: Parked, now: int) -> None:
        """Keep a PUBLISH of an ended session, up to `max_size_bytes` in all: no producer window bounds these.

        Without a limit (FC-34) none is kept.
        """
        most = self.address.rule.max_size_bytes
        if most == UNLIMITED or self._orphaned + parked.cost > most:
            self.discard(parked, now)
        else:
            parked.orphaned = parked.cost
            self._orphaned += parked.cost

    # -- time

    def watch_time(self, now: int) -> None:
        """Set the timer: after CHECK_PERIOD, or at the `block_timeout` of the first PUBLISH if that is earlier."""
        at = now + CHECK_PERIOD
        parked = self._first()
        timeout = self.timeout
        if parked is not None and timeout:
            at = min(at, parked.since + timeout)
        timer = self.timer
        if timer is None or timer.at <= now or at < timer.at:
            self.timer = FullAddressTimer(self)
            self._addresses.wheel.add(at, self.timer)

    def check(self, now: int) -> None:
        """Time out PUBLISHes that have waited too long, and end the episode if there is room again."""
        address = self.address
        timeout = self.timeout
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
            self.on_room()  # the subscriptions may have changed
        elif address.size <= address.rule.max_size_bytes // 2:
            if self.pages is not None:
                self.pages.end()
            self.timer = None
            self.end_waiting()
            self._addresses.end(self)
            return
        self.watch_time(now)

    # -- the queue

    def _first(self) -> Parked | None:
        for parked in self._parked:
            return parked
        return None

    def _remove(self, parked: Parked) -> None:
        del self._parked[parked]
        self._bytes -= parked.cost
        self._orphaned -= parked.orphaned
        self._count()

    def _count(self) -> None:
        self.address.waiting = len(self._parked) + (self.pages.length if self.pages is not None else 0)
        if not self.address.waiting:
            self._draining = False
            self.end_waiting()


@final
class FullAddressTimer(Timer):
    """Checks a full address."""

    def __init__(self, full: FullAddress) -> None:
        self.full = full

    def wanted(self) -> bool:
        """False once another timer has replaced it, or the episode is over."""
        return self.full.timer is self

    def due(self, now: int) -> None:
        """Check the address; `check` sets the next timer."""
        if self.wanted():
            self.full.check(now)
