"""Groups whose home is another cell, as the cell of a member sees them (FC-13).

The home hands over as much as the member has room for. It goes to the session at once or, if that cannot take it now,
when it pulls. The home is told in the next turn what has become of it.
"""

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, final

from broker.cluster import group_controls
from broker.cluster.group_controls import DONE, LEAVE, RETURNED, SENT, Joining, Report
from protocol.publish import Publish
from protocol.subscribe import Subscription
from session.outbound import Outbound
from session.source import BLOCKED, DELIVERED, EMPTY, Consumer, Source

if TYPE_CHECKING:
    from broker.cluster.cell_link import CellLink


@final
class RemoteGroups:
    """Those with one other cell as their home."""

    def __init__(
        self, link: "CellLink", tell: Callable[[bytes], None], soon: Callable[[Callable[[], None]], object]
    ) -> None:
        """`tell` sends the home a packet, if it is connected; `soon` calls in the next turn."""
        self._link = link
        self._tell = tell
        self._soon = soon
        self._groups: dict[int, RemoteGroup] = {}
        self._next = 1
        self._reports: list[Report] = []

    def join(self, outbound: Outbound, subscription: Subscription) -> "RemoteGroup":
        """A session of this cell joins a group; the home is told, if it is connected."""
        number, self._next = self._next, self._next + 1
        group = self._groups[number] = RemoteGroup(self, number, outbound, subscription)
        group.tell_home()
        if not outbound.sender.connected:
            group.detached()  # it is of the journal
        return group

    def tell_all(self) -> None:
        """The home has just been connected: tell it all members of this cell."""
        for group in self._groups.values():
            group.tell_home()

    def name_of(self, member: int) -> str:
        """The name of a member's group; empty = it has left."""
        group = self._groups.get(member)
        return "" if group is None else group.name

    def names(self) -> list[str]:
        """The names of all groups."""
        return [each.name for each in self._groups.values()]

    def is_connected(self) -> bool:
        """Whether the home is."""
        return self._link.is_open()

    def send(self, packet: bytes) -> None:
        """Tell the home something."""
        self._tell(packet)

    def report(self, kind: int, member: int, delivery: int) -> None:
        """Tell it what has become of a delivery, in the next turn."""
        if not self._reports:
            self._soon(self.flush)
        self._reports.append(Report(kind, member, delivery))

    def flush(self) -> None:
        """Tell it now."""
        reports, self._reports = self._reports, []
        if reports:
            self._tell(group_controls.reports(reports))

    def deliver(self, payload: bytes, now: int) -> None:
        """A delivery has come."""
        member, number, publish = group_controls.read_delivery(payload)
        group = self._groups.get(member)
        if group is None:
            self.report(RETURNED, member, number)
        else:
            group.deliver(number, publish, now)

    def forget_idle(self, group: "RemoteGroup") -> None:
        """A member has left: nothing is known of it once it has acknowledged all."""
        if group.left and not group.has_any():
            self._groups.pop(group.number, None)

    def disconnected(self) -> None:
        """The home is not connected: it gives to others what it has handed over."""
        self._reports.clear()
        for group in list(self._groups.values()):
            group.disconnected()
            self.forget_idle(group)


@final
class RemoteGroup(Source):
    """One group, for one member."""

    def __init__(
        self, groups: RemoteGroups, number: int, outbound: Outbound, subscription: Subscription
    ) -> None:
        self.number = number
        """Of the member, on the link."""
        self.left = False
        self.listens = True
        self._groups = groups
        self._outbound = outbound
        self._subscription = subscription
        self._waiting: deque[tuple[int, Publish]] = deque()
        self._in_window: dict[int, int] = {}
        """Numbers of deliveries by packet id."""
        self._told = 0
        """How many deliveries the home has been told that the member may have."""
        self._pending = False
        """Whether the session pulls."""

    @property
    def name(self) -> str:
        """`$share/group/filter`."""
        return self._subscription.topic_filter

    def tell_home(self) -> None:
        """Tell the home of the member, and what it may have."""
        if not self.left:
            self._groups.send(group_controls.join(Joining(self.number, self._subscription)))
            self.tell_room()

    def change(self, subscription: Subscription) -> None:
        """The member has subscribed again, with other options."""
        self._subscription = subscription
        self.tell_home()

    def has_any(self) -> bool:
        """Whether the member has deliveries of the group."""
        return bool(self._waiting or self._in_window)

    def tell_room(self) -> None:
        """Tell the home how many deliveries the member may have, if that has changed."""
        sender = self._outbound.sender
        most = int(sender.window.limit) if sender.connected and not self.left else 0
        if most != self._told and self._groups.is_connected():
            self._told = most
            self._groups.send(group_controls.room(self.number, most))

    def deliver(self, number: int, publish: Publish, now: int) -> None:
        """A delivery has come: send it, or have the session pull it."""
        outbound = self._outbound
        if self.left or not outbound.sender.connected:
            self._groups.report(RETURNED, self.number, number)
        elif not self._waiting and outbound.has_spare_room() and outbound.can_send(publish, now):
            self._send(number, publish, now)
            outbound.wake()
        else:
            self._waiting.append((number, publish))
            self._pull_later()
            outbound.wake()

    def pull(self, consumer: Consumer, now: int) -> int:
        """The session can send again, or has just connected."""
        self.tell_room()
        sent = False
        while self._waiting and consumer.has_room() and consumer.can_send(self._waiting[0][1], now):
            number, publish = self._waiting.popleft()
            self._send(number, publish, now)
            sent = True
        if self._waiting:
            return DELIVERED if sent else BLOCKED
        self._pending = False
        return EMPTY

    def completed(self, publish: Publish, packet_id: int, now: int) -> None:
        """The client has acknowledged a delivery."""
        number = self._in_window.pop(packet_id, None)
        if number is not None:
            self._groups.report(DONE, self.number, number)
            self._groups.forget_idle(self)

    def take_back(self, deliveries: list[Publish], lost: list[Publish], now: int) -> bool:
        """The session ends: the home gives its deliveries to others."""
        for number in self._in_window.values():
            self._groups.report(RETURNED, self.number, number)
        self._in_window.clear()
        self._groups.forget_idle(self)
        return True

    def detached(self) -> None:
        """The client is away: others get what has not been sent to it."""
        self._return_waiting()
        self.tell_room()
        self._pull_later()  # to tell when it is back

    def leave(self) -> None:
        """The subscription ends."""
        self.left = True
        self._return_waiting()
        if self._pending:
            self._pending = False
            self._outbound.forget(self)
        self._groups.flush()  # before the home forgets it
        self._groups.send(group_controls.about_member(LEAVE, self.number))
        self._groups.forget_idle(self)

    def disconnected(self) -> None:
        """The home is not connected, and gives to others what it has handed over."""
        self._waiting.clear()
        self._in_window.clear()
        self._told = 0

    # -- internal

    def _pull_later(self) -> None:
        if not self._pending:
            self._pending = True
            self._outbound.pull_later(self)

    def _return_waiting(self) -> None:
        while self._waiting:
            self._groups.report(RETURNED, self.number, self._waiting.popleft()[0])

    def _send(self, number: int, publish: Publish, now: int) -> None:
        identifiers = self._subscription.identifiers
        packet_id = self._outbound.send_pulled(publish.identified(identifiers) if identifiers else publish, self, now)
        if packet_id == 0:
            self._groups.report(DONE, self.number, number)
            return
        self._in_window[packet_id] = number
        if publish.qos == 2:
            self._groups.report(SENT, self.number, number)
