"""Restores what the journal holds into a new broker (FC-27)."""

from typing import final

from broker.broker import Broker
from broker.clients import NEVER_EXPIRES, Client
from broker.runtime.clock import SECOND, monotonic_us, wall_us
from broker.storage.evicted import release_address
from broker.storage.journal import Journal
from broker.storage.kept_address import KeptAddress
from broker.storage.kept_group import KeptGroup
from broker.storage.kept_queue import KeptQueue
from broker.storage.kept_session import KeptSession
from broker.storage.message import Message
from broker.storage.saved import Saved, SavedRetained, SavedSession, decode
from protocol.decoder import Decoder
from session.window import Restored


def restore(broker: Broker, journal: Journal, saved: Saved) -> None:
    """Restore the sessions, groups and retained messages of a journal. Raises DamagedError."""
    journal.begin_after(saved.frames, saved.last_frame, saved.last_queue)
    recovery = _Recovery(broker, journal)
    for stored in saved.retained.values():
        recovery.restore_retained(stored)
    queues = list(saved.sessions.values())
    for session in queues:
        if not session.group and not session.topic:
            recovery.restore_session(session)
    for group in queues:
        if group.group:
            recovery.restore_group(group)
    for pages in queues:
        if pages.topic:
            recovery.restore_pages(pages)
    recovery.schedule(queues)


def needs_topics(broker: Broker) -> bool:
    """Whether the topics of what waits have to be known: for their addresses (FC-24) or weights (FC-12)."""
    return broker.router.addresses.limits_topics() or broker.settings.limits.priorities is not None


@final
class _Recovery:
    def __init__(self, broker: Broker, journal: Journal) -> None:
        self._broker = broker
        self._journal = journal
        self._decoder = Decoder(version=5)
        self._clients: dict[int, Client] = {}
        self._now = monotonic_us()
        self._clock_offset = wall_us() - self._now

    def _restore_deliveries(self, kept: KeptQueue, saved: SavedSession) -> None:
        """All of them are on disk only so far: they count for their addresses, and wait by their weights."""
        router = self._broker.router
        priorities = self._broker.settings.limits.priorities
        for entry in saved.entries(self._now):
            topic = saved.topic_of(entry.delivery)
            address = router.address(topic) if topic else None
            weight = priorities.weight(topic) if priorities is not None else 0
            kept.add_evicted(entry if address is None else entry._replace(address=address), weight)

    def restore_retained(self, retained: SavedRetained) -> None:
        publish, saved, place = retained.publish, retained.saved, retained.place
        publish.received_at = self._now
        publish.expires_at = self._journal.times(saved.expires_at)
        if publish.expires_at and publish.expires_at <= self._now:
            return
        message = Message(self._journal.frames[place.frame], place.offset, self._journal.memory)
        message.written(place.length)
        self._broker.retained.restore(publish, saved.publisher, message)

    def restore_session(self, saved: SavedSession) -> None:
        broker = self._broker
        client = self._clients[saved.number] = broker.sessions.new(saved.client_id, self._now)
        session = client.session
        kept = client.kept = KeptSession(self._journal, saved.number, saved.client_id)
        self._begin(kept, saved)
        self._restore_deliveries(kept, saved)
        kept.restore_state(saved)
        client.expiry_interval = saved.expiry
        session.version = saved.version
        for subscription in saved.subscriptions.values():
            if session.subscriptions is None:
                session.subscriptions = {}
            session.subscriptions[subscription.topic_filter] = subscription
            broker.router.subscribe(session.outbound, subscription)
        found = [kept.evicted.find(number) for number in saved.inflight]
        entries = [entry for entry in found if entry is not None]
        inflight = [
            Restored(publish, saved.inflight[entry.delivery], entry.delivery in saved.received)
            for entry, publish in zip(entries, kept.read_now(entries), strict=True)
        ]
        session.restore(kept, inflight, list(saved.remembered), self._now)
        for entry in entries:
            release_address(entry)  # the window holds them

    def restore_group(self, saved: SavedSession) -> None:
        shared = self._broker.router.shared
        queue = shared.queues.get(saved.group)
        kept = KeptGroup(self._journal, saved.number, saved.group)
        self._begin(kept, saved)
        if queue is None:  # it has lost its last member
            kept.end()
            return
        self._restore_deliveries(kept, saved)
        shared.restore(queue, kept)

    def restore_pages(self, saved: SavedSession) -> None:
        kept = KeptAddress(self._journal, saved.number, saved.topic)
        self._begin(kept, saved)
        for entry in saved.pages():
            kept.add_evicted(entry)
        if kept.evicted.length:
            self._broker.addresses.restore(kept, self._now)
        else:
            kept.end()

    def schedule(self, sessions: list[SavedSession]) -> None:
        """Set the timers of sessions that expire and of delayed wills, when all is restored."""
        for saved in sessions:
            client = self._clients.get(saved.number)
            if client is None:
                continue
            detached_at = saved.detached_at - self._clock_offset if saved.detached_at else self._now
            expires_at = detached_at + saved.expiry * SECOND
            if saved.will:
                will = decode(saved.will, self._decoder)
                self._broker.sessions.wills.delay(client, will, detached_at + saved.will_delay * SECOND)
            if saved.expiry == NEVER_EXPIRES:
                pass
            elif expires_at <= self._now:
                self._broker.sessions.expire(client, self._now)
                continue
            else:
                self._broker.sessions.expire_at(client, expires_at)
            if not saved.detached_at and client.kept is not None:
                client.kept.detached(saved.expiry, saved.will != b"")

    def _begin(self, kept: KeptQueue, saved: SavedSession) -> None:
        assert saved.begins_in is not None  # `Saved.finish` has removed all others
        kept.begin_in(saved.begins_in)
        kept.deliveries.next_delivery = saved.next_delivery
