"""Handles PUBLISHes to full addresses as their policy says (FC-24 to FC-26), or whose receivers are full (FC-34).

A topic without a limit gets an address while PUBLISHes to it wait for room in a receiver's queue.
"""

import asyncio
from collections import deque
from contextvars import Context
from typing import Final, final

from broker.addresses.full_address import AT_ONCE, FullAddress, Parked
from broker.addresses.pages import Pages
from broker.addresses.producer_windows import Producers
from broker.clients import Clients
from broker.events import Events
from broker.routing.messages import Messages
from broker.routing.router import MATCHED
from broker.runtime.clock import monotonic_us
from broker.runtime.read_gate import ReadGate
from broker.runtime.timers import Wheel
from broker.storage.journal import Journal
from broker.storage.kept_address import KeptAddress
from config.bridge import CLIENT_ID
from protocol import reason_codes
from protocol.publish import Publish
from protocol.replies import PublishRefused, shortened, topic_name
from session.address import DROP, FAIL, NOT_WATCHED, PAGE, UNLIMITED, Address, AddressRule
from session.backpressure import Backpressure
from session.limits import Limits
from session.session import Session

_CONTEXT: Final = Context()


@final
class Addresses:
    """The addresses that are full."""

    def __init__(
        self,
        messages: Messages,
        clients: Clients,
        wheel: Wheel,
        events: Events,
        limits: Limits,
        journal: Journal | None = None,
    ) -> None:
        """`journal`: None = no address pages."""
        self.wheel = wheel
        self.producers = Producers(wheel, limits)
        self.parked_total = 0
        """PUBLISHes that have been parked."""
        self.paged_total = 0
        self.refused_total = 0
        """PUBLISHes treated as `fail` does, at once or later."""
        self.dropped_total = 0
        """PUBLISHes that have been acknowledged and discarded."""
        self.stopping = False
        """Whether the broker stops: what is parked is not routed any more, so wills do not wait behind it."""
        self._messages = messages
        self._clients = clients
        self._events = events
        self._journal = journal
        self._limits = limits
        self._full_addresses: dict[Address, FullAddress] = {}
        self._ready: deque[FullAddress] = deque()
        self._scheduled = False

    @property
    def full(self) -> int:
        """How many addresses are full."""
        return len(self._full_addresses) - len(self._messages.router.addresses.blocked)

    # -- PUBLISHes to a full address

    def overflow(self, gate: ReadGate, session: Session, publish: Publish, now: int) -> None:
        """Apply the policy of the address, or of the receivers (FC-34), to an accepted PUBLISH that found no room."""
        router = self._messages.router
        address = router.address(publish.topic)
        if address is None or self._waits_for_queue(address, publish, session, now):
            self._overflow_queue(gate, session, publish, address, now)
            return
        full = self._full_address(address, now)
        policy = address.rule.full_policy
        if policy == FAIL:
            self.refuse(session, publish, address, now, True)
        elif policy == DROP:
            self._drop(session, publish, address, now)
        elif policy == PAGE:
            self._page(full, gate, session, publish, now)
        else:
            self._park(full, session, publish, now)
            self.producers.limit(gate, session, now)

    def _waits_for_queue(self, address: Address, publish: Publish, session: Session, now: int) -> bool:
        """Whether a queue has no room, and not the address. What an address pages waits there for its receivers too."""
        receivers = self._messages.router.late_receivers(publish.topic)
        if address.rule.full_policy == PAGE or not address.fits(receivers.size(publish, session.outbound)):
            return False
        return receivers.lacking(publish, session.outbound, True, now) is not None

    def _overflow_queue(
        self, gate: ReadGate, session: Session, publish: Publish, address: Address | None, now: int
    ) -> None:
        """FC-34: a receiver has no room for a PUBLISH. A publisher that no acknowledgement can tell waits."""
        router = self._messages.router
        if _can_be_told(session) and router.receivers(publish.topic).rejects():
            self.refuse(session, publish, address, now, True)
            return
        if address is None:
            address = router.addresses.blocked.get(publish.topic)
        if address is None:
            rule = AddressRule(UNLIMITED, block_timeout=self._limits.overflow_timeout)
            address = router.addresses.blocked[publish.topic] = Address(publish.topic, rule)
        full = self._full_address(address, now)
        full.shorten(self._limits.overflow_timeout)
        self._park(full, session, publish, now)
        if address.waiting == 1:
            full.settle(now, 1)  # so that the queue knows that somebody waits, before reading is paused
        self.producers.limit(gate, session, now)

    def overflow_will(self, session: Session, publish: Publish, now: int) -> None:
        """Route a will even if its address is full: it has no publisher whose connection could be paused.

        It is queued behind PUBLISHes that wait, because its client may have sent them (FC-9).
        """
        router = self._messages.router
        address = router.address(publish.topic) or router.addresses.blocked.get(publish.topic)
        if address is not None and address.waiting and not self.stopping:
            full = self._full_address(address, now)
            if address.rule.full_policy != PAGE:
                full.add(Parked(full, publish, session, now, will=True))
                return
            if self._write_page(full, publish, session.client_id) is not None:
                return
        self.publish_late(publish, session.client_id, now)

    def size(self, publish: Publish, client_id: str) -> int:
        """What a message of this client would add to its address."""
        return self._messages.router.late_receivers(publish.topic).size(publish, self._clients.outbound(client_id))

    def lacking(self, publish: Publish, client_id: str, now: int) -> Backpressure | None:
        """FC-34: a queue that has no room for a PUBLISH that waits; None = all have."""
        receivers = self._messages.router.late_receivers(publish.topic)
        return receivers.lacking(publish, self._clients.outbound(client_id), False, now)

    def publish_late(self, publish: Publish, client_id: str, now: int) -> bool:
        """Route a PUBLISH that has waited, or a will; returns whether there is a subscription."""
        return self._messages.publish_late(publish, client_id, self._clients.outbound(client_id), now) == MATCHED

    def _park(self, full: FullAddress, session: Session, publish: Publish, now: int) -> None:
        address = full.address
        if self.producers.used_up(session):
            # The session is read only for its acknowledgements. They may have made room for its parked PUBLISHes.
            full.settle(now, AT_ONCE)
        if self.producers.used_up(session) or full.rejects(publish):
            self.refuse(session, publish, address, now, True)
            return
        parked = Parked(full, publish, session, now)
        full.add(parked)
        address.parked += 1
        self.parked_total += 1
        session.inbound.park(publish)
        self.producers.add(parked)
        full.watch_time(now)

    # -- `drop`, `page` and `fail`

    def _drop(self, session: Session, publish: Publish, address: Address, now: int) -> None:
        """Discard a PUBLISH, and acknowledge it as usual."""
        session.inbound.discard(publish)
        address.dropped += 1
        self.dropped_total += 1
        session.inbound.answer(publish, True, now)

    def _page(self, full: FullAddress, gate: ReadGate, session: Session, publish: Publish, now: int) -> None:
        """Page a PUBLISH, and acknowledge it, which waits for the commit (FC-27)."""
        commit = self._write_page(full, publish, session.client_id)
        if commit is not None:
            session.counters.begin_uncommon().publish_paged += 1
            if publish.qos:
                session.outbox.wait_for(commit)
            if self._journal is not None:
                self._journal.commits.added_by(gate, now)
            session.inbound.answer(publish, True, now)
        elif full.address.rule.page_full_policy == DROP:
            self._drop(session, publish, full.address, now)
        else:
            self.refuse(session, publish, full.address, now, True)

    def _write_page(self, full: FullAddress, publish: Publish, client_id: str) -> int | None:
        """Page a PUBLISH. Returns as `KeptAddress.page`."""
        assert full.pages is not None  # an address that pages has them
        commit = full.pages.add(publish, client_id)
        if commit is not None:
            full.note_added()
            full.address.paged += 1
            self.paged_total += 1
        return commit

    def refuse(self, session: Session, publish: Publish, address: Address | None, now: int, expected: bool) -> None:
        """Refuse as `fail` does (FC-26); discard if it is QoS 0 or no acknowledgement is expected.

        `address`: None = a topic without a limit, of which nothing waits (FC-34).
        """
        self.refused_total += 1
        if address is not None:
            address.refused += 1
        if not expected or publish.qos == 0:
            session.inbound.discard(publish)
            return
        session.inbound.count_refused()
        blocked = self._messages.router.addresses.blocked
        queue = address is None or publish.topic in blocked or self._waits_for_queue(address, publish, session, now)
        why = "for which the queue of a subscriber has no room" if queue else "which is full"
        message = f"PUBLISH to {topic_name(publish.topic)!r}, {why}"
        refused = PublishRefused(reason_codes.QUOTA_EXCEEDED, message)
        self._events.publish_refused(session, refused, now)
        if _can_be_told(session):
            session.inbound.refuse(publish, refused.reason_code, shortened(refused.message))
            session.wake()
        else:
            session.close(refused.reason_code, refused.message)

    # -- episodes

    def _full_address(self, address: Address, now: int) -> FullAddress:
        full = self._full_addresses.get(address)
        if full is None:
            full = self._begin(address, now)
            journal = self._journal
            if journal is not None and address.rule.full_policy == PAGE:
                kept = KeptAddress(journal, journal.new_queue(), address.topic)
                kept.write_state()
                full.pages = Pages(kept, address.rule, full)
        return full

    def restore(self, kept: KeptAddress, now: int) -> None:
        """FC-27: an address that had pages before the process began."""
        address = self._messages.router.restore_address(kept.topic)
        full = self._begin(address, now)
        full.pages = Pages(kept, address.rule, full)
        full.note_added()

    def _begin(self, address: Address, now: int) -> FullAddress:
        full = self._full_addresses[address] = FullAddress(self, address)
        address.watcher = full
        full.watch_time(now)
        if address.topic not in self._messages.router.addresses.blocked:
            self._log("address_full", address)
        return full

    def end(self, full: FullAddress) -> None:
        """End the episode: the address has room again."""
        address = full.address
        address.watcher = None
        address.mark = NOT_WATCHED
        del self._full_addresses[address]
        if self._messages.router.addresses.blocked.pop(address.topic, None) is None:
            self._log("address_has_room", address)

    def drain(self, topic: bytes) -> int:
        """Route all that waits for room in an address, at most AT_ONCE in a turn of the loop; returns how many wait."""
        book = self._messages.router.addresses
        address = book.get(topic) or book.blocked.get(topic)
        full = None if address is None else self._full_addresses.get(address)
        if full is None:
            return 0
        waiting = full.address.waiting
        if waiting:
            full.drain()
        return waiting

    def _log(self, event: str, address: Address) -> None:
        """Log the beginning or the end of an episode, with the address's counters."""
        self._events.log.warning(
            event,
            topic=topic_name(address.topic),
            policy=address.rule.full_policy,
            size=address.size,
            max_size_bytes=address.rule.max_size_bytes,
            parked=address.parked,
            paged=address.paged,
            refused=address.refused,
            dropped=address.dropped,
        )

    # -- routing parked and paged PUBLISHes

    def may_route(self) -> bool:
        """Whether what waits may be routed: without room on the disk only a part of the reserve is for it (FC-29)."""
        return self._journal is None or self._journal.commits.may_move()

    def schedule(self, full: FullAddress) -> None:
        """Settle a full address in the loop's next turn."""
        if not full.scheduled:
            full.scheduled = True
            self._ready.append(full)
            self._settle_soon()

    def _settle_soon(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._settle, context=_CONTEXT)

    def _settle(self) -> None:
        """Settle the scheduled ones: in turn, at most AT_ONCE PUBLISHes in one turn of the loop."""
        now = monotonic_us()
        ready = self._ready
        try:
            for _ in range(AT_ONCE):
                if not ready:
                    break
                full = ready.popleft()
                full.scheduled = False
                full.settle(now, 1)  # if there is more to route, it joins at the end
        finally:
            self._scheduled = False
            if ready:
                self._settle_soon()

    # -- sessions

    def end_session(self, session: Session, now: int) -> None:
        """A session has ended. Its parked PUBLISHes are still routed, within a limit (FC-25)."""
        for parked in self.producers.parked(session):
            parked.full.orphan(parked, now)


def _can_be_told(session: Session) -> bool:
    """Whether an acknowledgement can refuse a PUBLISH for now: in 3.1.1 none can, and a broker forgets what has one."""
    return session.version == 5 and not session.client_id.startswith(CLIENT_ID)
