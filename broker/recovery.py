"""Restores what the journal holds into a new broker (FC-27)."""

from typing import final

from broker.absent_wills import GRACE, AbsentWills
from broker.auth.identity import Identity
from broker.auth.permissions import Who
from broker.broker import Broker
from broker.clients import NEVER_EXPIRES, Client
from broker.routing.group_members import found_group
from broker.runtime.clock import SECOND, monotonic_us
from broker.storage.journal import Journal
from broker.storage.kept_address import KeptAddress
from broker.storage.kept_group import KeptGroup
from broker.storage.kept_queue import KeptQueue
from broker.storage.kept_session import KeptSession
from broker.storage.kept_will import KeptWill
from broker.storage.message import Message
from broker.storage.owner import Owner
from broker.storage.reading_back import tell_rest
from broker.storage.restorer import Restorer, begin
from broker.storage.saved import Saved, SavedRetained, SavedSession, decode
from config.cluster import CELL
from protocol.connect import BRIDGE
from protocol.decoder import Decoder
from session.drops import DropLog
from session.session import Session
from session.shared_queue import SharedQueue
from session.window import Restored


def restore(broker: Broker, journal: Journal, saved: Saved) -> None:
    """Restore the sessions, groups and retained messages of a journal. Raises DamagedError."""
    journal.begin_after(saved)
    recovery = _Recovery(broker, journal)
    queues = sorted(saved.sessions.values(), key=lambda queue: queue.number)
    groups = {queue.group: queue.number for queue in queues}
    for session in queues:
        if session.is_will():
            recovery.restore_will(session)
        elif session.is_former():
            recovery.restore_former_session(session)
        elif not session.group and not session.topic:
            recovery.restore_session(session)
    for stored in saved.retained.values():
        recovery.restore_retained(stored)  # after the sessions: FC-31 asks whose publisher's they are
    recovery.restore_feeds(queues)
    for group in queues:
        if group.group:
            recovery.restore_group(group, groups[group.group] == group.number)
    recovery.restore_sources()
    for pages in queues:
        if pages.topic:
            recovery.restore_pages(pages)
    recovery.schedule(queues)


@final
class _Recovery:
    def __init__(self, broker: Broker, journal: Journal) -> None:
        self._broker = broker
        self._journal = journal
        self._decoder = Decoder(version=5)
        self._clients: dict[int, Client] = {}
        self._groups: dict[int, SharedQueue] = {}
        self._pulled: list[tuple[Session, Restored, int]] = []
        """What was in windows and came from groups, with their numbers."""
        self._former: list[tuple[KeptQueue, DropLog]] = []
        self._now = monotonic_us()
        self._absent = AbsentWills(broker.sessions, self._restore_client)
        self._restorer = Restorer(broker.router.address, journal.lanes, self._now)

    def restore_retained(self, retained: SavedRetained) -> None:
        publish, saved, place = retained.publish, retained.saved, retained.place
        publish.received_at = self._now
        self._journal.restore_expiry(publish, saved.expires_at, place.frame, place.offset, self._now)
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
        client.expiry_interval = saved.expiry
        self._restore_client(client, saved.version, saved.owner)
        for subscription in saved.subscriptions.values():
            if session.subscriptions is None:
                session.subscriptions = {}
            session.subscriptions[subscription.topic_filter] = subscription
            broker.router.subscribe(session.outbound, subscription)
        pulled = self._restorer.session(session, kept, saved)
        self._pulled += [(session, restored, group) for restored, group in pulled]
        if saved.owner is not None:
            broker.subscribing.recheck(client)  # the rules may be others than before

    def restore_former_session(self, saved: SavedSession) -> None:
        kept = KeptSession(self._journal, saved.number, saved.client_id)
        kept.version, kept.detached_at = saved.version, self._now
        self._restore_former(kept, saved, self._broker.drop_events.of_client(saved.client_id))

    def _restore_former(self, kept: KeptQueue, saved: SavedSession, log: DropLog | None) -> None:
        """FC-35: what was dropped with it and is not told yet is told when all is restored."""
        self._restorer.former(kept, saved)
        if log is None:
            kept.end()
        else:
            self._former.append((kept, log))

    def restore_feeds(self, sessions: list[SavedSession]) -> None:
        """FC-6: what SUBACK has promised of retained messages is sent when the client is back."""
        for saved in sessions:
            client = self._clients.get(saved.number)
            owed = [saved.subscriptions[name] for name in saved.owed if name in saved.subscriptions]
            if client is not None and owed:
                client.feed = self._broker.subscribing.new_feed(client)
                client.feed.resume(owed, saved.newer, self._now)

    def restore_will(self, saved: SavedSession) -> None:
        """FC-27: the session has ended with the process; its will waits for the client to come back."""
        assert saved.begins_in is not None  # as in `begin`
        kept = KeptWill(self._journal, saved.number, saved.client_id, saved.version, saved.owner)
        kept.restore(saved.will)
        kept.begin_in(saved.begins_in)
        kept.count_state(saved.state_bytes())
        self._absent.add(kept, decode(saved.will, self._decoder))

    def _restore_client(self, client: Client, level: int, owner: Owner | None) -> None:
        """Give a client the protocol, the rights and the quotas that it had."""
        client.bridge = level & BRIDGE != 0
        client.session.version = level & ~BRIDGE
        self._restore_rights(client, owner)
        client.note_flow()
        self._broker.quotas.renew(client)  # FC-31, FC-39

    def _restore_rights(self, client: Client, owner: Owner | None) -> None:
        """Decide about a session as before; if that is not known, as about nobody in particular.

        A member of a shared subscription stays one until it connects: nothing is handed to it before.
        """
        session = client.session
        who = Who(None, frozenset(), session.client_id, "", "", False)
        if owner is not None:
            client.owned = True
            client.identity = None if owner.user is None else Identity(owner.user, owner.roles)
            session.listener = owner.listener
            host, listener = owner.host, owner.listener
            who = Who(owner.user, owner.roles, session.client_id, host, listener, bridge=client.bridge)
        authorizer = self._broker.authorizer
        # Perhaps: neither rules nor denied topics are in the journal.
        client.rights_changed = authorizer is not None or self._broker.topic_rules.hides_topics()
        if authorizer is not None:
            client.permissions = authorizer.permissions(who)
            authorizer.attach(session.outbound, client.permissions, False)

    def restore_group(self, saved: SavedSession, newest: bool) -> None:
        """`newest`: whether there was no later group of this name; it may have lost its last member all the same."""
        shared = self._broker.router.shared
        queue = shared.queues.get(saved.group)
        kept = KeptGroup(self._journal, saved.number, saved.group)
        if queue is None and newest and CELL in self._broker.settings.profiles:
            queue = found_group(self._broker.router, saved.group)  # other cells may have its members
        if queue is None or not newest:
            self._restore_former(kept, saved, self._broker.drop_events.of_group(saved.group))
            return
        begin(kept, saved)
        shared.restore(queue, kept)
        self._restorer.group(queue, kept, saved)
        self._groups[saved.number] = queue

    def restore_sources(self) -> None:
        """FC-13: when a session ends, groups get back what it has not acknowledged."""
        for session, restored, group in self._pulled:
            queue = self._groups.get(group)
            if queue is not None:
                queue.restore_handed_over(restored.publish, session.outbound)
                session.outbound.sender.note_source(restored.packet_id, queue)

    def restore_pages(self, saved: SavedSession) -> None:
        kept = KeptAddress(self._journal, saved.number, saved.topic)
        begin(kept, saved)
        for entry in saved.deliveries.pages():
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
            detached_at = self._now
            if saved.detached_at:  # not later than now, if the wall clock is behind what it was
                detached_at = min(saved.detached_at - self._journal.times.offset, self._now)
            expires_at = detached_at + saved.expiry * SECOND
            if saved.will:
                ended = saved.expiry != NEVER_EXPIRES and expires_at <= self._now
                self._await_will(client, saved, detached_at + saved.will_delay * SECOND, ended)
            if saved.expiry == NEVER_EXPIRES:
                pass
            elif expires_at <= self._now:
                self._broker.sessions.expire(client, self._now)
                continue
            else:
                self._broker.sessions.expire_at(client, expires_at)
            if not saved.detached_at and client.kept is not None:
                client.kept.detached(saved.expiry, saved.will != b"")
        for kept, log in self._former:
            tell_rest(kept, log)
        self._absent.start(monotonic_us())

    def _await_will(self, client: Client, saved: SavedSession, at: int, ended: bool) -> None:
        """Publish a will at this time, but not before its client could come back; `ended`: the session ends now."""
        will = decode(saved.will, self._decoder)
        if not ended and at > self._now + GRACE:
            self._broker.sessions.wills.delay(client, will, at)
        elif not ended:
            self._absent.add_kept(client, will)
        else:
            kept = KeptWill(self._journal, self._journal.new_queue(), saved.client_id, saved.version, saved.owner)
            kept.write(will)
            self._absent.add(kept, will)
