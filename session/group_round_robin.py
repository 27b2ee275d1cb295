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

    def __init__(self) -> None:
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

    def next(self, publish: Publish, queue: Source, now: int) -> Member | None:
        """The next member that can take a delivery of `queue`; None = no member in the rotation can."""
        rotation = self._rotation
        while rotation:
            member = rotation.popleft()
            consumer = member.consumer
            if consumer.can_send(publish, now):
                if consumer.has_spare_room():
                    rotation.append(member)
                    return member
                if not member.busy:
                    member.busy = True
                    self._busy.append(member)
            member.in_rotation = False
            consumer.pull_later(queue)
        return None

    def has_taker(self, publish: Publish, now: int) -> bool:
        """Whether `next` or `next_busy` would find a member that can take a delivery."""
        return any(member.consumer.can_send(publish, now) for member in [*self._rotation, *self._busy])

    def next_busy(self, publish: Publish, now: int) -> Member | None:
        """A member that has left the rotation as busy, and can still take a delivery; None if there is none."""
        busy = self._busy
        while busy:
            member = busy.popleft()
            if not member.in_rotation and not member.left and member.consumer.can_send(publish, now):
                busy.append(member)
                return member
            member.busy = False
        return None
