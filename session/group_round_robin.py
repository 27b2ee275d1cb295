"""FC-13: the members of a shared subscription, and which of them gets the next delivery."""

from collections import deque
from typing import final

from protocol.publish import Publish
from protocol.subscribe import Subscription
from session.source import Consumer, Source


@final
class Member:
    """A session of the group, with the options of its own subscription [MQTT-4.8.2-3]."""

    def __init__(self, consumer: Consumer, subscription: Subscription) -> None:
        self.consumer = consumer
        self.subscription = subscription
        self.in_rotation = False
        self.busy = False
        """Whether it left the rotation only because its pass has enough to do."""
        self.left = False
        """Whether it has left the group."""

    def delivery(self, publish: Publish) -> Publish:
        """The message as this member gets it."""
        options = self.subscription
        delivery = publish.at(min(options.qos, publish.qos), publish.retain and options.retain_as_published)
        if options.identifiers or delivery.identifiers:  # a member with other identifiers may have returned it
            delivery = delivery.identified(options.identifiers)
        return delivery


@final
class RoundRobin:
    """The members that may be able to take a delivery, in turn.

    A member that cannot take one leaves the rotation and pulls from the queue (`Consumer.pull_later`) when it can send
    again.
    """

    def __init__(self, members: dict[Consumer, Member]) -> None:
        """`members`: all of the group."""
        self._members = members
        self._rotation: deque[Member] = deque()
        self._busy: deque[Member] = deque()

    def join(self, member: Member) -> None:
        """Append a member."""
        member.in_rotation = True
        self._rotation.append(member)

    def leave(self, member: Member, queue: Source) -> None:
        """A member leaves the group."""
        member.left = True
        if member.in_rotation:
            self._rotation.remove(member)
        else:
            member.consumer.forget(queue)

    def next(self, publish: Publish, queue: Source, now: int, holder: Consumer | None = None) -> Member | None:
        """The next member that can take a delivery of `queue`; None = no member in the rotation can.

        `holder`: the only session that may get it (FC-33).
        """
        rotation = self._rotation
        if holder is not None:
            held = self._members.get(holder)
            if held is None or not held.in_rotation:
                return None
            rotation.remove(held)
            return held if self._takes(held, publish, queue, now) else None
        while rotation:
            member = rotation.popleft()
            if self._takes(member, publish, queue, now):
                return member
        return None

    def _takes(self, member: Member, publish: Publish, queue: Source, now: int) -> bool:
        """A member has been taken out of the rotation: if it can take a delivery, it is the last one from now on."""
        consumer = member.consumer
        if consumer.can_send(publish, now):
            if consumer.has_spare_room():
                self._rotation.append(member)
                return True
            if not member.busy:
                member.busy = True
                self._busy.append(member)
        member.in_rotation = False
        consumer.pull_later(queue)
        return False

    def has_any(self, busy: bool = False) -> bool:
        """Whether there is a member in the rotation; `busy`: one that has left it as busy."""
        return len(self._busy if busy else self._rotation) > 0

    def has_taker(self, publish: Publish, now: int, holder: Consumer | None) -> bool:
        """Whether `next` or `next_busy` would find a member that can take a delivery."""
        return any(
            member.consumer.can_send(publish, now)
            for member in [*self._rotation, *self._busy]
            if holder is None or member.consumer is holder
        )

    def next_busy(self, publish: Publish, now: int, holder: Consumer | None = None) -> Member | None:
        """As `next`, a member that has left the rotation as busy, and can still take a delivery."""
        busy = self._busy
        if holder is not None:
            held = self._members.get(holder)
            if held is None or not held.busy:
                return None
            busy.remove(held)
            return held if self._still_takes(held, publish, now) else None
        while busy:
            member = busy.popleft()
            if self._still_takes(member, publish, now):
                return member
        return None

    def _still_takes(self, member: Member, publish: Publish, now: int) -> bool:
        if not member.in_rotation and not member.left and member.consumer.can_send(publish, now):
            self._busy.append(member)
            return True
        member.busy = False
        return False

    def dissolve(self, queue: Source) -> None:
        """All members leave the rotation and pull: there may be something that they could not get before."""
        while self._rotation:
            member = self._rotation.popleft()
            member.in_rotation = False
            member.consumer.pull_later(queue)
