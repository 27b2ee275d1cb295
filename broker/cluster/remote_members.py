"""Members of groups whose home is this cell, and which other cells serve (FC-13).

To the group's queue such a member is one like others, which pulls. What it has been handed stays here until its cell
reports that it is done: if the cell goes, or the member does not take it, it returns to the head of the queue.
"""

from collections.abc import Callable
from typing import Final, NamedTuple, final

from broker.broker import Broker
from broker.cluster import group_controls
from broker.cluster.group_controls import DONE, JOINED, SENT, Joining, Report
from broker.cluster.own_filters import OwnFilters
from broker.routing.group_members import join_group, leave_group
from broker.runtime.clock import monotonic_us
from protocol.publish import Publish
from session.cost import cost
from session.holder import Holder, hold, release
from session.pacing import Pacer
from session.shared_queue import SharedQueue
from session.source import EMPTY, Consumer, Source

AHEAD: Final = 65_536
"""Bytes that a member may have been handed and not have acknowledged; one delivery may be larger."""


@final
class RemoteMembers:
    """Those of one other cell."""

    def __init__(
        self,
        broker: Broker,
        own: OwnFilters,
        tell: Callable[[bytes], None],
        soon: Callable[[Callable[[], None]], object],
    ) -> None:
        """`tell` sends the other cell a packet, if it is connected; `soon` calls in the next turn."""
        self._broker = broker
        self._own = own
        self._tell = tell
        self._soon = soon
        self._members: dict[int, RemoteMember] = {}
        self._former: set[int] = set()
        """Those that the other cell has not told again since it connected."""

    def join(self, joining: Joining) -> None:
        """A member joins a group, or is told again. JOINED follows once all cells know its filter (CL-1)."""
        number, wanted = joining
        name, router = wanted.topic_filter, self._broker.router
        member = self._members.get(number)
        if member is not None and member.name != name:
            self._end(member)  # the other cell has begun anew, with other numbers
            member = None
        if member is None:
            member = self._members[number] = RemoteMember(name, number, self._tell, self._soon)
        self._former.discard(number)
        member.queue = join_group(router, member, wanted)
        if self._broker.sessions.durable:
            router.shared.keep(name)
        joined = group_controls.about_member(JOINED, number)
        if self._own.unknown([name]):
            self._own.when_known([name], lambda _: self._tell(joined), _nothing)
        else:
            self._tell(joined)

    def leave(self, number: int) -> None:
        """A member leaves. What it has stays with it until its cell reports."""
        member = self._members.get(number)
        if member is not None:
            leave_group(self._broker.router, member, member.name)
            member.left = True
            self._forget_idle(member)

    def room(self, number: int, most: int) -> None:
        """A member may have so many deliveries; 0 = its client is away."""
        member = self._members.get(number)
        if member is not None:
            member.most = most
            member.pull_again()

    def report(self, found: list[Report], now: int) -> None:
        """What has become of deliveries."""
        returned: dict[RemoteMember, list[int]] = {}
        for kind, number, delivery in found:
            member = self._members.get(number)
            if member is None:
                continue
            if kind == DONE:
                member.done(delivery, now)
            elif kind == SENT:
                member.sent(delivery)
            else:
                returned.setdefault(member, []).append(delivery)
        for member, deliveries in returned.items():
            member.take_back(deliveries, now)
        for number in {report.member for report in found}:
            member = self._members.get(number)
            if member is not None:
                self._forget_idle(member)

    def disconnected(self, now: int) -> None:
        """The other cell is not connected: others get what its members have."""
        self._former = set(self._members)
        for member in list(self._members.values()):
            member.most = 0
            member.take_back(list(member.unacknowledged), now)
            self._forget_idle(member)

    def end_former(self) -> None:
        """The other cell has told all its members since it connected."""
        former, self._former = self._former, set()
        for number in former:
            member = self._members.get(number)
            if member is not None:
                self._end(member)

    def _end(self, member: "RemoteMember") -> None:
        self.leave(member.number)
        self._members.pop(member.number, None)

    def _forget_idle(self, member: "RemoteMember") -> None:
        if member.left and not member.unacknowledged:
            self._members.pop(member.number, None)


class _Handed(NamedTuple):
    publish: Publish
    size: int
    sent: bool = False
    """Whether its client has been sent it at QoS 2."""


@final
class RemoteMember(Consumer):
    """One member, as its group sees it."""

    def __init__(
        self, name: str, number: int, tell: Callable[[bytes], None], soon: Callable[[Callable[[], None]], object]
    ) -> None:
        self.name = name
        """Of the group."""
        self.number = number
        self.most = 0
        """How many deliveries it may have at a time; 0 = its client is away."""
        self.left = False
        self.unacknowledged: dict[int, _Handed] = {}
        """What it has been handed, by number, oldest first."""
        self.queue: SharedQueue | None = None
        self._tell = tell
        self._soon = soon
        self._bytes = 0
        self._next = 1
        self._pulls = False
        """Whether it is out of the group's rotation, and pulls."""
        self._planned = False

    # -- asked by the group

    def pull_later(self, source: Source) -> None:
        """The group has more than it may have now."""
        self._pulls = True

    def forget(self, source: Source) -> None:
        """It has left."""
        self._pulls = False

    def is_online(self) -> bool:
        """Whether its client is connected."""
        return self.most > 0

    def is_open(self) -> bool:
        """Whether it may have another delivery."""
        return len(self.unacknowledged) < self.most and self._bytes < AHEAD

    def has_room(self) -> bool:
        """Its cell writes."""
        return True

    def has_spare_room(self) -> bool:
        """Its cell writes."""
        return True

    def can_send(self, publish: Publish, now: int) -> bool:
        """Whether it may have this one."""
        return self.is_open() and (self._bytes == 0 or self._bytes + cost(publish) <= AHEAD)

    def send_pulled(self, publish: Publish, source: Source | None, now: int) -> int:
        """Hand it a delivery."""
        number, self._next = self._next, self._next + 1 & 0xFFFFFFFF
        size = cost(publish)
        self.unacknowledged[number] = _Handed(publish, size)
        self._bytes += size
        if publish.holder is not None:
            hold(publish)
        self._tell(group_controls.delivery(self.number, number, publish))
        return number if publish.qos else 0

    def wake(self) -> None:
        """There may be something to pull."""
        if self._pulls and not self._planned:
            self._planned = True
            self._soon(self._pull_planned)

    def pace(self, pacing: Pacer, now: int) -> bool:
        """It publishes nothing."""
        return False

    # -- told by its cell

    def pull_again(self) -> None:
        """It may have more than before."""
        if self._pulls and self.is_open():
            self.wake()

    def done(self, number: int, now: int) -> None:
        """A delivery is acknowledged."""
        handed = self.unacknowledged.pop(number, None)
        if handed is not None:
            self._let_go(handed)
            if self.queue is not None and handed.publish.qos:
                self.queue.completed(handed.publish, number, now)
            self.pull_again()

    def sent(self, number: int) -> None:
        """A delivery of QoS 2 has been sent: no other member may get it, also after a restart (FC-27)."""
        handed = self.unacknowledged.get(number)
        if handed is not None and not handed.sent:
            self.unacknowledged[number] = handed._replace(sent=True)
            holder = handed.publish.holder
            if isinstance(holder, Holder):
                holder.sent(1, 2)

    def take_back(self, numbers: list[int], now: int) -> None:
        """These return to the head of the queue, in their order, for other members."""
        handed = [self.unacknowledged.pop(each) for each in sorted(numbers) if each in self.unacknowledged]
        if not handed:
            return
        queue = self.queue
        if queue is not None:
            returned = [each.publish for each in handed if not each.sent and (each.publish.qos or not queue.listens)]
            queue.take_back(returned, [each.publish for each in handed if each.sent], now)
        for each in handed:
            self._let_go(each)
        self.pull_again()

    # -- internal

    def _let_go(self, handed: _Handed) -> None:
        self._bytes -= handed.size
        if handed.publish.holder is not None:
            release(handed.publish)

    def _pull_planned(self) -> None:
        self._planned = False
        queue = self.queue
        if self._pulls and not self.left and queue is not None and self.is_open():
            self._pulls = False
            if queue.pull(self, monotonic_us()) != EMPTY:
                self._pulls = True


def _nothing() -> None:
    """The other cell closes its client's connection itself."""
