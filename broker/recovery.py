"""Restores what the journal holds into a new broker (FC-27)."""

from typing import final

from broker.broker import Broker
from broker.clients import NEVER_EXPIRES, Client
from broker.runtime.clock import SECOND, monotonic_us, wall_us
from broker.storage.journal import Journal
from broker.storage.kept_group import KeptGroup
from broker.storage.kept_queue import KeptQueue
from broker.storage.kept_session import KeptSession
from broker.storage.saved import Saved, SavedDelivery, SavedSession, StoredMessage, decode
from protocol.decoder import Decoder
from protocol.publish import Publish
from session.window import Restored


def restore(broker: Broker, journal: Journal, saved: Saved) -> None:
    """Restore the sessions, groups and retained messages of a journal. Raises DamagedError."""
    journal.begin_after(saved.frames, saved.last_frame, saved.last_message, saved.last_queue)
    recovery = _Recovery(broker, journal)
    for stored in saved.retained.values():
        recovery.restore_retained(stored)
    for session in saved.sessions.values():
        if not session.group:
            recovery.restore_session(session)
    for group in saved.sessions.values():
        if group.group:
            recovery.restore_group(group)
    recovery.schedule(list(saved.sessions.values()))


@final
class _Recovery:
    def __init__(self, broker: Broker, journal: Journal) -> None:
        self._broker = broker
        self._journal = journal
        self._decoder = Decoder(version=5)
        self._publishes: dict[int, Publish] = {}
        self._clients: dict[int, Client] = {}
        self._now = monotonic_us()
        self._clock_offset = wall_us() - self._now

    def restore_retained(self, stored: StoredMessage) -> None:
        publish = self._publish(stored)
        if not publish.expires_at or publish.expires_at > self._now:
            self._broker.retained.restore(publish, stored.saved.publisher, stored.message)

    def restore_session(self, saved: SavedSession) -> None:
        broker = self._broker
        client = self._clients[saved.number] = broker.sessions.new(saved.client_id, self._now)
        session = client.session
        kept = client.kept = KeptSession(self._journal, saved.number, saved.client_id)
        self._begin(kept, saved)
        kept.restore_state(saved)
        client.expiry_interval = saved.expiry
        session.version = saved.version
        for subscription in saved.subscriptions.values():
            if session.subscriptions is None:
                session.subscriptions = {}
            session.subscriptions[subscription.topic_filter] = subscription
            broker.router.subscribe(session.outbound, subscription)
        inflight = [
            Restored(self._delivery(kept, saved.deliveries[number]), packet_id, number in saved.received)
            for number, packet_id in saved.inflight.items()
            if number in saved.deliveries
        ]
        session.restore(self._waiting(kept, saved), inflight, list(saved.remembered), self._now)
        session.keep(kept)

    def restore_group(self, saved: SavedSession) -> None:
        shared = self._broker.router.shared
        queue = shared.queues.get(saved.group)
        kept = KeptGroup(self._journal, saved.number, saved.group)
        self._begin(kept, saved)
        if queue is None:  # it has lost its last member
            kept.end()
            return
        queue.restore(self._waiting(kept, saved))
        shared.attach(queue, kept)

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
        kept.deliveries.pending.update(saved.deliveries)

    def _waiting(self, kept: KeptQueue, saved: SavedSession) -> list[Publish]:
        return [
            self._delivery(kept, saved.deliveries[number])
            for number in sorted(saved.deliveries)
            if number not in saved.inflight
        ]

    def _delivery(self, kept: KeptQueue, saved: SavedDelivery) -> Publish:
        target = saved.target
        publish = self._publish(saved.message).at(target.qos, target.retain)
        if target.identifiers:
            publish = publish.identified(target.identifiers)
        publish.holder = self._broker.router.address(publish.topic)
        return kept.hold(publish, saved.message.message, target.delivery)

    def _publish(self, stored: StoredMessage) -> Publish:
        """The message; it is the same object for all its deliveries."""
        number = stored.saved.number
        publish = self._publishes.get(number)
        if publish is None:
            publish = self._publishes[number] = stored.publish(self._decoder)
            publish.received_at = self._now
            if stored.saved.expires_at:
                publish.expires_at = max(stored.saved.expires_at - self._clock_offset, 1)
        return publish
