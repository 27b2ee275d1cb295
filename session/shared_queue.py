"""FC-13: a shared subscription is one queue, from which the members of the group pull as they can."""

from collections import deque
from typing import TYPE_CHECKING, final

from protocol.publish import Publish
from protocol.subscribe import Subscription
from session.counters import Counters
from session.host import Host
from session.limits import Limits
from session.mqueue import MQueue, too_big
from session.overflow import drop_expired, drop_newcomer, make_room
from session.pacing import Pacing, has_relief
from session.priority_mqueue import new_mqueue
from session.source import EMPTY, FED, PASSED_OVER, Source

if TYPE_CHECKING:
    from session.outbound import Outbound


@final
class Member:
    """A session of the group, with the options of its own subscription [MQTT-4.8.2-3]."""

    def __init__(self, outbound: "Outbound", subscription: Subscription) -> None:
        self.outbound = outbound
        self.subscription = subscription
        self.in_line = False
        self.busy = False
        """Whether it has left the line only for having enough to do for its pass."""

    def delivery(self, publish: Publish) -> Publish:
        """The message as this member gets it."""
        options = self.subscription
        delivery = publish.at(min(options.qos, publish.qos), publish.retain and options.retain_as_published)
        if options.identifiers or delivery.identifiers:  # it may come back from a member with other identifiers
            delivery = delivery.identified(options.identifiers)
        return delivery


@final
class SharedQueue(Source):
    """The queue of one group. It holds what no member can take now, so while it is not empty, nobody can.

    Who can take a delivery stands in line, and whoever gets one goes to the end of it. A member that turns out to be
    unable to leaves the line, remembers that it has missed something (`Outbound.miss`), and pulls when its way is free.
    """

    def __init__(self, name: str, limits: Limits, host: Host) -> None:
        self.name = name
        """`$share/group/filter`."""
        self.members: dict[Outbound, Member] = {}
        self.counters = Counters(0)
        """The group's own books: offered = sent (handed to a member) + dropped + waiting."""
        self.mqueue: MQueue | None = None
        self._limits = limits
        self._host = host
        self._line: deque[Member] = deque()
        self._busy: deque[Member] = deque()
        self._pacing: Pacing | None = None
        self._offered: Publish | None = None  # to all members, each of which asks again when its way is free

    def add(self, outbound: "Outbound", subscription: Subscription) -> None:
        """Let a session in, or change its options."""
        member = self.members.get(outbound)
        if member is not None:
            member.subscription = subscription
            return
        self.members[outbound] = Member(outbound, subscription)
        outbound.miss(self)

    def remove(self, outbound: "Outbound") -> None:
        """Let a session out; nothing happens if it is not in. What waits when the last one has left is dropped."""
        member = self.members.pop(outbound, None)
        if member is None:
            return
        if member.in_line:
            self._line.remove(member)
        else:
            outbound.forget(self)
        mqueue = self.mqueue
        if not self.members and mqueue is not None:
            while mqueue.length:
                self.counters.count_drop("session_ended", mqueue.pop().qos)

    def deliver(self, publish: Publish, publisher: "Outbound | None", now: int) -> None:
        """Hand a message to the member whose turn it is among those that can take it, or keep it until one can."""
        self.counters.count_offered(publish.qos)
        mqueue = self.mqueue
        if (mqueue is None or mqueue.length == 0) and self._give(publish, now):
            return
        self._store(publish, publisher, now)

    def pull(self, outbound: "Outbound", now: int) -> int:
        """A member's way is free: give it what waits. Once nothing is left, it stands in line again."""
        member = self.members[outbound]
        mqueue = self.mqueue
        if mqueue is not None:
            waited = mqueue.length
            while mqueue.length and outbound.has_room() and outbound.can_take(mqueue.head(), now):
                self._hand_over(member, mqueue.pop(), now)
            if mqueue.length < waited:
                self._note_drained(mqueue, now)
                self._wake_who_can(now)
            if mqueue.length:
                return FED if mqueue.length < waited else PASSED_OVER
            mqueue.overflowing = False
        member.in_line = True
        self._line.append(member)
        return EMPTY

    def take_back(self, deliveries: list[Publish], now: int) -> bool:
        """A member's session has ended: what it has not acknowledged goes to the others, before all that waits.

        Returns False if there are no others.
        """
        if not self.members:
            return False
        mqueue = self.mqueue
        if mqueue is None:
            mqueue = self.mqueue = new_mqueue(self._limits)
        for publish in reversed(deliveries):
            mqueue.push_front(publish)
            self.counters.count_handed_over(publish.qos, -1)
        self._dispatch(now)
        self._offered = None
        self._wake_who_can(now)
        return True

    def _dispatch(self, now: int) -> None:
        """Hand over what waits while anybody in line can take it."""
        mqueue = self.mqueue
        while mqueue is not None and mqueue.length and self._give(mqueue.head(), now):
            mqueue.pop()
            self._note_drained(mqueue, now)

    def _give(self, publish: Publish, now: int) -> bool:
        """Hand a message to whose turn it is; False if nobody is left in line."""
        line = self._line
        while line:
            member = line.popleft()
            outbound = member.outbound
            if outbound.can_take(publish, now):
                if outbound.at_ease():
                    line.append(member)
                    self._hand_over(member, publish, now)
                    return True
                if not member.busy:
                    member.busy = True
                    self._busy.append(member)
            member.in_line = False
            outbound.miss(self)
        return False

    def _press(self, publish: Publish, now: int) -> bool:
        """Hand a message to a member that has enough to do for this pass, but could take it; False if there is none."""
        busy = self._busy
        while busy:
            member = busy.popleft()
            outbound = member.outbound
            if not member.in_line and self.members.get(outbound) is member and outbound.can_take(publish, now):
                busy.append(member)
                self._hand_over(member, publish, now)
                return True
            member.busy = False
        return False

    def _hand_over(self, member: Member, publish: Publish, now: int) -> None:
        self.counters.count_handed_over(publish.qos, 1)
        outbound = member.outbound
        packet_id = outbound.take(member.delivery(publish), now)
        if packet_id:
            outbound.note_taken(packet_id, self)
        outbound.wake()

    def _store(self, publish: Publish, publisher: "Outbound | None", now: int) -> None:
        limits = self._limits
        mqueue = self.mqueue
        if mqueue is None:
            mqueue = self.mqueue = new_mqueue(limits)
        if publish.qos == 0 and not limits.mqueue_store_qos0 and not self._anybody_online():
            self.counters.count_drop("offline_qos0", 0)  # FC-7
            return
        while not mqueue.fits(publish, limits) and mqueue.length and self._press(mqueue.head(), now):
            mqueue.pop()  # FC-6: nothing is dropped while it could be sent
            self._note_drained(mqueue, now)
        if mqueue.length == 0 and not mqueue.fits(publish, limits) and self._press(publish, now):
            return
        waited = mqueue.length
        if mqueue.fits(publish, limits) or self._may_join(mqueue, publish, publisher, now):
            if waited == 0 and self._pacing is not None:
                self._pacing.moved_at = now  # it had nothing to drain before
            mqueue.append(publish)
            self.counters.note_mqueue(mqueue.length, mqueue.bytes)
        self._wake_who_can(now)

    # -- holding publishers back (FC-16)

    def paced_for(self, now: int) -> int:
        """Microseconds for which the group has held back publishers, since it began."""
        return self._pacing.patience.used_time.so_far(now) if self._pacing is not None else 0

    def _may_join(self, mqueue: MQueue, publish: Publish, publisher: "Outbound | None", now: int) -> bool:
        """Whether a message joins that would overflow the queue; if not, it has been dropped.

        A group has no mailbox: as long as publishers are held back, what comes nevertheless joins the queue, up to as
        much again as its limits. Past that it is dropped, and not what has been let in.
        """
        limits = self._limits
        if limits.overflow_patience and not too_big(publish, limits):
            if drop_expired(mqueue, publish, limits, self.counters, now):
                return True
            if self._holds_back(publisher, now):
                too_many = 0 < 2 * limits.max_mqueue_len <= mqueue.length
                if not too_many and not 0 < 2 * limits.max_mqueue_bytes < mqueue.bytes + publish.size:
                    return True
                drop_newcomer(mqueue, publish, limits, self.counters, self._host, "shared_queue_full", self.name)
                return False
        return make_room(mqueue, publish, limits, self.counters, self._host, now, "shared_queue_full", self.name)

    def _holds_back(self, publisher: "Outbound | None", now: int) -> bool:
        """Hold back the publisher of a message that would overflow the queue; returns whether it holds back anybody."""
        pacing = self._pacing
        if publisher is not None and publisher.connected and self._anybody_online():
            if pacing is None:
                pacing = self._pacing = Pacing(self._limits.overflow_patience, now)
            if pacing.begin(self._host, now) and pacing.hold(publisher.as_publisher(now), now):
                publisher.arm_publisher(pacing, now)
                return True
        elif pacing is not None:
            pacing.look(now)
        return pacing is not None and pacing.active

    def _note_drained(self, mqueue: MQueue, now: int) -> None:
        pacing = self._pacing
        if pacing is None:
            return
        pacing.moved_at = now
        if mqueue.length == 0:
            pacing.note_empty()
        if pacing.active and has_relief(mqueue, 0, self._limits):
            pacing.end(now)

    def _wake_who_can(self, now: int) -> None:
        """Another delivery may be next: a byte window that was too small for the one before may have room (FC-10)."""
        mqueue = self.mqueue
        if self._limits.consumer_window_size > 0 and mqueue is not None and mqueue.length:
            head = mqueue.head()
            if head is self._offered:
                return
            self._offered = head
            for outbound in self.members:
                if outbound.can_take(head, now):
                    outbound.wake()

    def _anybody_online(self) -> bool:
        return any(outbound.connected for outbound in self.members)
