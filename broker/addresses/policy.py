"""What becomes of PUBLISHes to an address that is full (FC-24 to FC-26)."""

import asyncio
from collections import deque
from contextvars import Context
from typing import TYPE_CHECKING, Final, final

from broker.addresses.full_address import AT_ONCE, Backlog, Parked
from broker.addresses.producer_windows import Producers
from broker.connection.publishing import EPISODE
from broker.connection.replies import PublishRefused, in_words
from broker.runtime.clock import monotonic_us
from protocol import reason_codes
from protocol.publish import Publish
from session.address import BLOCK, DROP, FAIL, NOT_WATCHED, PAGE, Address
from session.session import Session

if TYPE_CHECKING:
    from broker.addresses.paging.paging import Paging
    from broker.broker import Broker
    from broker.connection.connection import Connection

_QUOTED: Final = 100
"""Bytes of a topic name that the log or a refusal quotes."""
_CONTEXT: Final = Context()


@final
class Addresses:
    """The addresses that are full."""

    def __init__(self, broker: "Broker", window: int, paging: "Paging | None") -> None:
        """`window`: bytes of a producer window. `paging`: None = no address pages."""
        self.producers = Producers(broker, window)
        self.paging = paging
        self.parked_total = 0
        """PUBLISHes that have had to wait; those that an address has paged are not among them."""
        self.paged_total = 0
        self.refused_total = 0
        """PUBLISHes that have got what `fail` gives them, at once or later."""
        self.dropped_total = 0
        """PUBLISHes that have been acknowledged and discarded."""
        self.stopping = False
        """Whether the broker is: what waits is not routed any more, so nothing need wait behind it."""
        self._broker = broker
        self._backlogs: dict[Address, Backlog] = {}
        self._ready: deque[Backlog] = deque()
        self._scheduled = False

    @property
    def full(self) -> int:
        """How many addresses are full."""
        return len(self._backlogs)

    # -- PUBLISHes to a full address

    def overflow(
        self, connection: "Connection", session: Session, publish: Publish, address: Address, now: int
    ) -> None:
        """Do with an accepted PUBLISH that has found its address full what its rule says."""
        backlog = self._backlog(address, now)
        policy = address.rule.full_policy
        if policy == FAIL:
            self.refuse(session, publish, address, now, True)
        elif policy == DROP:
            self.count_dropped(session, address)
            session.answer(publish, True, now)
        else:
            self._wait(backlog, session, publish, now)
            self.producers.limit(connection, session, now)

    def overflow_will(self, session: Session, publish: Publish, address: Address, now: int) -> None:
        """Route a will, whatever the size of its address: nobody is there to be held back.

        Where others wait it gets in line, though: they may be what its client has sent before (FC-9).
        """
        if address.waiting and not self.stopping:
            backlog = self._backlog(address, now)
            if backlog.take(Parked(backlog, publish, session, now, will=True)):
                return
        self._broker.publish_late(publish, session.client_id, now)

    def _wait(self, backlog: Backlog, session: Session, publish: Publish, now: int) -> None:
        address = backlog.address
        if self.producers.used_up(session):
            # It is read for the sake of its acknowledgements. They may have made room for what it has waiting.
            backlog.settle(now, AT_ONCE)
        if self.producers.used_up(session) or backlog.rejects(publish):
            self.refuse(session, publish, address, now, True)
            return
        parked = Parked(backlog, publish, session, now)
        if backlog.take(parked):
            if address.rule.full_policy == BLOCK:
                address.parked += 1
                self.parked_total += 1
            session.park(publish, address.rule.full_policy == PAGE)
            self.producers.add(parked)
            backlog.watch_time(now)
        elif address.rule.page_full_policy == DROP:
            self.count_dropped(session, address)
            session.answer(publish, True, now)
        else:
            self.refuse(session, publish, address, now, True)

    # -- what `drop` and `fail` do

    def count_dropped(self, session: Session, address: Address) -> None:
        """A PUBLISH is discarded, and acknowledged as usual."""
        session.outbound.counters.publish_discarded += 1
        address.dropped += 1
        self.dropped_total += 1

    def count_paged(self, address: Address) -> None:
        """A PUBLISH is on disk."""
        address.paged += 1
        self.paged_total += 1

    def refuse(self, session: Session, publish: Publish, address: Address, now: int, expected: bool) -> None:
        """Answer as `fail` does (FC-26), if the client expects an answer. QoS 0 has none."""
        address.refused += 1
        self.refused_total += 1
        counters = session.outbound.counters
        if not expected or publish.qos == 0:
            counters.publish_discarded += 1
            return
        counters.publish_refused += 1
        refused = PublishRefused(reason_codes.QUOTA_EXCEEDED, f"PUBLISH to {_name(address)!r}, which is full")
        if now >= session.refused_until:
            self._broker.report_refused("publish_refused", session, session.listener, refused)
        session.refused_until = now + EPISODE
        if session.version == 5:
            session.refuse(publish, refused.reason_code, in_words(refused.message))
            session.outbound.host.wake()
        else:
            session.outbound.host.disconnect(refused.reason_code, refused.message)

    # -- episodes

    def _backlog(self, address: Address, now: int) -> Backlog:
        backlog = self._backlogs.get(address)
        if backlog is None:
            paging = self.paging
            paged = paging is not None and address.rule.full_policy == PAGE
            backlog = self._backlogs[address] = Backlog(self._broker, address)
            if paging is not None and paged:
                backlog.pages = paging.open(address, backlog)
            address.watcher = backlog
            backlog.watch_time(now)
            self._log("address_full", address)
        return backlog

    def end(self, backlog: Backlog) -> None:
        """An address has room again."""
        address = backlog.address
        address.watcher = None
        address.mark = NOT_WATCHED
        del self._backlogs[address]
        self._log("address_has_room", address)

    def _log(self, event: str, address: Address) -> None:
        """Log the beginning or the end of an episode, with what has been counted since the address is known."""
        self._broker.log.warning(
            event,
            topic=_name(address),
            policy=address.rule.full_policy,
            size=address.size,
            max_size_bytes=address.rule.max_size_bytes,
            parked=address.parked,
            paged=address.paged,
            refused=address.refused,
            dropped=address.dropped,
        )

    # -- routing what has waited

    def schedule(self, backlog: Backlog) -> None:
        """Settle a backlog in the loop's next turn."""
        if not backlog.scheduled:
            backlog.scheduled = True
            self._ready.append(backlog)
            self._settle_soon()

    def _settle_soon(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._settle, context=_CONTEXT)

    def _settle(self) -> None:
        """Settle those in line: a bounded number of PUBLISHes in one turn of the loop, and each address its part."""
        self._scheduled = False
        now = monotonic_us()
        ready = self._ready
        turns = min(len(ready), AT_ONCE)
        try:
            for _ in range(turns):
                backlog = ready.popleft()
                backlog.scheduled = False
                backlog.settle(now, AT_ONCE // turns)
        finally:
            if ready:
                self._settle_soon()

    # -- sessions

    def end_session(self, session: Session, now: int) -> None:
        """A session is over. What it has waiting is routed nevertheless, so far as it is not too much."""
        for parked in self.producers.parked(session):
            parked.backlog.leave_behind(parked, now)


def _name(address: Address) -> str:
    return address.topic[:_QUOTED].decode(errors="ignore")
