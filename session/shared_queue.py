"""FC-13: a shared subscription is one queue, from which the members of the group pull."""

from collections.abc import Callable
from typing import cast, final

from protocol.publish import Publish
from protocol.subscribe import Subscription
from session.backpressure import Backpressure
from session.counters import Counters, SessionTotals
from session.flows import FIFO
from session.group_keys import GroupKeys, goes_first
from session.group_round_robin import Member, RoundRobin
from session.holder import hold, release
from session.host import Host
from session.journal import QueueJournal
from session.lanes import Lanes
from session.limits import Limits
from session.mqueue import NEAR, MQueue, never_fits
from session.new_mqueue import new_mqueue
from session.overflow import (
    begin_episode,
    drop_all,
    drop_arrival,
    drop_expired,
    has_aged,
    has_expired,
    make_room,
    supersede,
)
from session.pacing import Pacing, has_relief
from session.room import has_any_place, is_below_share
from session.source import BLOCKED, DELIVERED, EMPTY, Consumer, Source


@final
class SharedQueue(Source):
    """The queue of one group. While it is not empty, no member can take its head.

    With keys (FC-33): no member in the rotation can take any head that is open to it.
    """

    def __init__(self, name: str, limits: Limits, host: Host, permits: Callable[[Publish], bool] | None = None) -> None:
        """`permits`: whether what waits may still be handed over; if not, it is dropped. None = all may."""
        self.name = name
        """`$share/group/filter`."""
        self.members: dict[Consumer, Member] = {}
        self.counters = Counters(0)
        """The group's counters: offered = sent (handed to a member) + dropped + waiting."""
        self._past = SessionTotals()  # over its finished intervals
        self.mqueue: MQueue | None = None
        self.backpressure = Backpressure()
        """FC-34."""
        self.limits = limits
        self._host = host
        self._permits = permits
        self._rotation = RoundRobin(self.members)
        self._keys = GroupKeys(limits.fairness, self.members) if limits.group_keys else None
        self.listens = self._keys is not None
        self._pacing: Pacing | None = None
        self._offered: Publish | None = None  # the head that members were last woken for

    def take_counters(self, now: int, interval_end: int) -> Counters:
        """The counters of the interval that ends now; a new one begins, at its nominal end."""
        counters = self.counters
        following = self.counters = Counters(interval_end)
        following.drop_log = counters.drop_log
        counters.end_interval(following, None, self.mqueue, [])
        counters.offer_again()
        if self._pacing is not None:
            counters.begin_uncommon().paced_for_us = self._pacing.patience.used_time.take(now)
        self._past.add(counters)
        return counters

    def totals(self, now: int) -> SessionTotals:
        """The totals since the group began; no counter is reset."""
        totals = SessionTotals()
        totals.add(self.counters)
        if self._pacing is not None:
            totals.paced_for_us = self._pacing.patience.used_time.so_far(now)
        totals.include(self._past)
        return totals

    def add(self, consumer: Consumer, subscription: Subscription) -> None:
        """Add a session, or change its options."""
        member = self.members.get(consumer)
        if member is not None:
            member.subscription = subscription
            return
        self.members[consumer] = Member(consumer, subscription)
        consumer.pull_later(self)

    def remove(self, consumer: Consumer) -> None:
        """Remove a session, if it is a member. What waits when the last one leaves is dropped."""
        member = self.members.pop(consumer, None)
        if member is None:
            return
        self._rotation.leave(member, self)
        if not self.members:
            drop_all(self.mqueue, self.counters)

    def deliver(self, publish: Publish, publisher: Consumer | None, now: int) -> None:
        """Hand a message to the next member in the rotation that can take it, or queue it."""
        self.counters.count_offered(publish.qos)
        kept = self.journal is not None and publish.qos > 0
        if self.journal is not None and kept:
            publish = self.journal.add(publish)
            hold(publish)
        if not goes_first(publish, self.mqueue, self._keys) or not self._give(publish, now):
            self._store(publish, publisher, now)
        if kept:
            release(publish)

    def restore(self, journal: QueueJournal) -> None:
        """FC-27: what waited before the process began."""
        self.journal = journal
        mqueue = self.mqueue = new_mqueue(self.limits)
        mqueue.restore(journal, self._wake_members)
        self.counters.restore_mqueue(mqueue)

    def restore_handed_over(self, publish: Publish, consumer: Consumer) -> None:
        """FC-27: a session had a delivery of this queue in its window before the process began."""
        self.counters.count_offered(publish.qos)
        self.counters.count_handed_over(publish.qos, 1)
        if self._keys is not None:
            self._keys.add(publish, consumer)

    def _wake_members(self) -> None:
        """FC-30: a head is in memory again, so members can pull it."""
        self._rotation.dissolve(self)
        for consumer in self.members:
            if consumer.is_online():
                consumer.wake()

    def pull(self, consumer: Consumer, now: int) -> int:
        """A member can send again: hand it what waits. Once nothing does that it may get, it rejoins the rotation."""
        member = self.members[consumer]
        mqueue = self.mqueue
        if mqueue is not None:
            waited = mqueue.length
            head = self._next(mqueue, now, consumer)
            while head is not None and consumer.has_room() and consumer.can_send(head, now):
                self._hand_over(member, head, now)
                mqueue.pop()  # FC-24: now that the member's window holds it
                head = self._next(mqueue, now, consumer)
            if mqueue.length < waited:
                self._note_drained(mqueue, now)
                self._wake_able_members(now)
            if mqueue.length:
                mqueue.read_ahead()
                if self._keys is None or self._next(mqueue, now, consumer) is not None:
                    return DELIVERED if mqueue.length < waited else BLOCKED
            else:
                mqueue.overflowing = False
        self._rotation.join(member)
        return EMPTY

    def completed(self, publish: Publish, packet_id: int, now: int) -> None:
        """FC-33: a session has acknowledged a delivery: others may get what waits of its flow, if that was the last."""
        if self._keys is not None and self._keys.remove(publish):
            if self._rotation.has_any():
                self._dispatch(now)
            self._wake_able_members(now)

    def take_back(self, deliveries: list[Publish], lost: list[Publish], now: int) -> bool:
        """A member's session has ended: put what it has not acknowledged at the head, for the other members.

        Returns False if there are no others. `lost`: QoS 2, which no other session may get [MQTT-4.8.2-5].
        """
        if self._keys is not None:
            for publish in [*deliveries, *lost]:
                self._keys.remove(publish)
        if not self.members:
            return False
        mqueue = self.mqueue
        if mqueue is None:
            mqueue = self.mqueue = new_mqueue(self.limits)
        for publish in reversed(deliveries):
            self.counters.count_handed_over(publish.qos, -1)
            older = None if mqueue.newest is None else mqueue.newest.older(publish)
            if older is not None and older.received_at >= publish.received_at:
                self.counters.count_superseded(publish.qos)  # FC-37: a newer one waits
                continue
            if self.journal is not None and not self.journal.owns(publish):
                publish = self.journal.add_first(publish)
            if not supersede(mqueue, publish, self.counters):
                mqueue.push_front(publish)
        self._dispatch(now)
        self._offered = None
        self._wake_able_members(now)
        return True

    def _dispatch(self, now: int) -> None:
        """Hand over what waits while a member in the rotation can take it."""
        mqueue = self.mqueue
        while mqueue is not None and (head := self._next(mqueue, now)) is not None:
            if self._give(head, now):
                mqueue.pop()
                self._note_drained(mqueue, now)
            elif not self._rotation.has_any():
                break

    def _next(self, mqueue: MQueue, now: int, consumer: Consumer | None = None, busy: bool = False) -> Publish | None:
        """The head to hand over, if there is one; with keys: that is open, as `GroupKeys.seek` has it (FC-33).

        What is before it and may not be delivered any more is dropped.
        """
        keys = self._keys
        while keys is None or keys.seek(mqueue, consumer, busy):
            head = mqueue.head()
            if head is None:
                break
            if has_aged(head, now, self.limits) and not has_expired(head, now):
                self.counters.count_drop("aged", mqueue.drop_head())
            elif self._permits is None or self._permits(head):
                return head
            else:
                self.counters.count_drop("not_permitted", mqueue.drop_head())
        return None

    def drop_aged(self, now: int) -> None:
        """FC-36: drop what has waited too long."""
        mqueue = self.mqueue
        if mqueue is not None and self.limits.max_mqueue_age:
            dropped = mqueue.drop_aged(now - self.limits.max_mqueue_age)
            for publish in dropped:
                self.counters.count_drop("aged", publish)
            if dropped:
                self._note_drained(mqueue, now)
                self._wake_able_members(now)

    def _give(self, publish: Publish, now: int, busy: bool = False) -> bool:
        """Hand a message to the next member in the rotation that can take it; False if there is none.

        `busy`: to one that has left it as busy.
        """
        rotation = self._rotation
        holder = None if self._keys is None else self._keys.holder(publish)
        member = rotation.next_busy(publish, now, holder) if busy else rotation.next(publish, self, now, holder)
        if member is None:
            return False
        self._hand_over(member, publish, now)
        return True

    def _hand_over(self, member: Member, publish: Publish, now: int) -> None:
        self.counters.count_handed_over(publish.qos, 1)
        consumer = member.consumer
        packet_id = consumer.send_pulled(member.delivery(publish), self, now)
        if self._keys is not None and packet_id:
            self._keys.add(publish, consumer)
        consumer.wake()

    def _store(self, publish: Publish, publisher: Consumer | None, now: int) -> None:
        limits = self.limits
        mqueue = self.mqueue
        if mqueue is None:
            mqueue = self.mqueue = new_mqueue(limits)
        if publish.qos == 0 and not limits.mqueue_store_qos0 and not self.is_online():
            self.counters.count_drop("offline_qos0", publish)  # FC-7
            return
        self._give_until_fits(mqueue, publish, now)
        goes_over = not mqueue.fits(publish, limits) and goes_first(publish, mqueue, self._keys)
        if goes_over and self._give(publish, now, busy=True):
            return
        if (mqueue.fits(publish, limits) or self._may_join(mqueue, publish, publisher, now)) and (
            mqueue.newest is None or not supersede(mqueue, publish, self.counters)  # FC-37
        ):
            if self.journal is not None and mqueue.tail is None:
                if self.journal.evicts(mqueue.length, mqueue.bytes):
                    mqueue.begin_tail(publish, self.journal, self._wake_members)
                elif publish.rest5 is not None and mqueue.length >= NEAR and publish.qos:
                    publish.forget_frames()  # FC-30: it is a delivery of its own
            mqueue.append(publish)
            self.counters.note_mqueue(mqueue.length, mqueue.bytes)
        self._wake_able_members(now)

    def _give_until_fits(self, mqueue: MQueue, publish: Publish, now: int) -> None:
        """FC-6: nothing is dropped while it could be sent."""
        while not mqueue.fits(publish, self.limits):
            head = self._next(mqueue, now, None, busy=True)
            if head is None:
                break
            if self._give(head, now, busy=True):
                mqueue.pop()
                self._note_drained(mqueue, now)
            elif not self._rotation.has_any(busy=True):
                break
        if self._keys is not None:
            cast("Lanes", mqueue).end_seek()

    # -- telling publishers (FC-34)

    def lacking(self, publish: Publish, arriving: bool, now: int) -> Backpressure | None:
        """This queue, if it tells its publishers and has no room for a QoS 1 or 2 delivery.

        `arriving`: the PUBLISH has not waited yet.
        """
        if not self.limits.backpressure:
            return None
        mqueue = self.mqueue
        if mqueue is None:
            mqueue = self.mqueue = new_mqueue(self.limits)
        backpressure = self.backpressure
        if not mqueue.fits(publish, self.limits):
            self._give_until_fits(mqueue, publish, now)
            drop_expired(mqueue, publish, self.limits, self.counters, now)
            self._wake_able_members(now)
        if (
            mqueue.fits(publish, self.limits)
            or is_below_share(mqueue, publish, self.limits)
            or (
                goes_first(publish, mqueue, self._keys)
                and self._rotation.has_taker(publish, now, None if self._keys is None else self._keys.holder(publish))
            )
        ):
            if has_any_place(mqueue, self.limits):
                backpressure.note_room()  # as with a session
            return backpressure if arriving and backpressure.waiters else None
        online = self.is_online()
        backpressure.note_presence(online, now)
        backpressure.note_full(now)
        begin_episode(mqueue, publish, self.limits, self._host, "shared_queue_full")
        return backpressure if backpressure.tells(self.limits, online, now) else None

    # -- pacing publishers (FC-16)

    def _may_join(self, mqueue: MQueue, publish: Publish, publisher: Consumer | None, now: int) -> bool:
        """Whether a message that would overflow the queue joins it; if not, it has been dropped.

        A group has no mailbox: while publishers are paced, messages that still arrive join the queue, up to twice its
        limits. Above that the new message is dropped, not an older one; where flows are told apart, one of the longest
        (FC-33).
        """
        limits = self.limits
        tells = self.backpressure.tells(limits, self.is_online(), now)
        mqueue.keeps = limits.backpressure and (tells or publish.qos == 0)  # FC-34
        if mqueue.keeps and publish.qos and limits.fairness != FIFO and mqueue.fits(publish, limits, 2):
            return True  # FC-34: its publisher has been told that there is room
        times = 1
        if limits.overflow_patience and not never_fits(publish, limits):
            if drop_expired(mqueue, publish, limits, self.counters, now):
                return True
            if self._paces(mqueue, publish, publisher, now):
                times = 2
                if limits.fairness == FIFO and not mqueue.fits(publish, limits, times):
                    drop_arrival(mqueue, publish, limits, self.counters, self._host, "shared_queue_full")
                    return False
        return make_room(mqueue, publish, limits, self.counters, self._host, now, "shared_queue_full", times)

    def _paces(self, mqueue: MQueue, publish: Publish, publisher: Consumer | None, now: int) -> bool:
        """Pace the publisher of a message that would overflow the queue; returns whether pacing is active."""
        pacing = self._pacing
        if publisher is not None and publisher.is_online() and self.is_online():
            if pacing is None:
                pacing = self._pacing = Pacing(self.limits.overflow_patience, now)
            begun = pacing.begin(self._host, now)
            if begun and mqueue.exceeds_share(publish, self.limits) and publisher.pace(pacing, now):
                return True
        elif pacing is not None:
            pacing.check(now)
        return pacing is not None and pacing.active

    def _note_drained(self, mqueue: MQueue, now: int) -> None:
        if self.limits.backpressure:
            self.backpressure.note_drained(has_any_place(mqueue, self.limits), True, now)
        pacing = self._pacing
        if pacing is None:
            return
        pacing.note_drained(now)
        if mqueue.length == 0:
            pacing.note_empty()
        if pacing.active and has_relief(mqueue, 0, self.limits):
            pacing.end(now)

    def _wake_able_members(self, now: int) -> None:
        """The head may be new: wake members whose byte window has room for it, though not for the last one (FC-10)."""
        mqueue = self.mqueue
        if mqueue is None:
            return
        if self._keys is not None and mqueue.newest is not None:
            self._dispatch(now)  # FC-37: a head may be of another flow than the one before
        if not self.limits.byte_windows:
            return
        if self._keys is not None:
            for consumer, member in self.members.items():
                if not member.in_rotation and consumer.is_open():
                    consumer.wake()  # FC-33: what is open to it is in several lanes
        else:
            head = mqueue.head()
            if head is None or head is self._offered:
                return
            self._offered = head
            for consumer in self.members:
                if consumer.can_send(head, now):
                    consumer.wake()

    def is_online(self) -> bool:
        """Whether a member is connected."""
        return any(consumer.is_online() for consumer in self.members)
