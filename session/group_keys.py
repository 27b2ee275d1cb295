"""FC-33: in a group with `group_order: key` a flow goes to one member at a time, so that its order holds."""

from typing import cast, final

from mypy_extensions import i64

from protocol.publish import Publish
from session.flows import flow_lane
from session.group_round_robin import Member
from session.lanes import Lanes
from session.mqueue import MQueue
from session.source import Consumer


@final
class Pin:
    """A member's session has unacknowledged QoS 1 or 2 of a flow: nobody else gets more of it."""

    def __init__(self, consumer: Consumer) -> None:
        self.consumer = consumer
        self.deliveries: i64 = 0
        """How many it has not acknowledged."""


@final
class GroupKeys:
    """The pins of one group, by flow."""

    def __init__(self, fairness: int, members: dict[Consumer, Member]) -> None:
        """`fairness`: which part of a flow counts; `members`: those of the group."""
        self._fairness = fairness
        self._members = members
        self._pins: dict[int, Pin] = {}

    def holder(self, publish: Publish) -> Consumer | None:
        """The session that the flow of a delivery is pinned to, a member or not any more; None = it is not."""
        pin = self._pins.get(flow_lane(publish.flow, self._fairness))
        return None if pin is None else pin.consumer

    def seek(self, mqueue: MQueue, consumer: Consumer | None, busy: bool) -> bool:
        """Have a head that this session may get; None: any of the rotation, or that has left it as `busy`.

        Returns False if there is none.
        """

        def is_open(publish: Publish) -> bool:
            holder = self.holder(publish)
            if holder is None or holder is consumer:
                return True
            member = None if consumer is not None else self._members.get(holder)
            return member is not None and (member.busy if busy else member.in_rotation)

        return cast("Lanes", mqueue).seek(is_open)

    def add(self, publish: Publish, consumer: Consumer) -> None:
        """A session has a delivery in its window."""
        lane = flow_lane(publish.flow, self._fairness)
        pin = self._pins.get(lane)
        if pin is None:
            pin = self._pins[lane] = Pin(consumer)
        pin.deliveries += 1

    def remove(self, publish: Publish) -> bool:
        """It has it no longer; returns whether the pin of its flow has ended."""
        lane = flow_lane(publish.flow, self._fairness)
        pin = self._pins.get(lane)
        if pin is None:
            return False
        pin.deliveries -= 1
        if pin.deliveries == 0:
            del self._pins[lane]
            return True
        return False


def goes_first(publish: Publish, mqueue: MQueue | None, keys: GroupKeys | None) -> bool:
    """Whether nothing waits in the queue of a group that a delivery must not overtake (FC-9, FC-37)."""
    if mqueue is None or mqueue.length == 0:
        return True
    if keys is None or cast("Lanes", mqueue).has_before(publish):
        return False
    return mqueue.newest is None or mqueue.newest.older(publish) is None
