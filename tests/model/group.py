"""FC-13: shared subscriptions as queues that members pull from, in turn among those that can take something."""

from dataclasses import replace

from tests.model.books import Books
from tests.model.knobs import Knobs
from tests.model.message import Message
from tests.model.mqueue import MQueue
from tests.model.pacing import Pacer, Publisher
from tests.model.sending import DRAIN_BYTES
from tests.model.session import Model
from tests.model.telling import Telling


class Group:
    """One queue. It holds what no member can take, so while something waits, nobody stands in line."""

    def __init__(self, knobs: Knobs, now: int) -> None:
        self.knobs = knobs
        self.pacer = Pacer(knobs, now)
        self.books = Books(0)
        self.mqueue = MQueue(knobs)
        self.members: dict[Member, int] = {}
        """The QoS of each one's own subscription."""
        self.line: list[Member] = []
        """Who could take something when it was last seen; who gets something goes to the end."""
        self.hurried: list[Member] = []
        """Corner: who has left the line only for having enough to do in its pass; an overflow presses them (FC-6)."""
        self.reports: list[str] = []
        self.telling = Telling(knobs)

    def join(self, member: "Member", qos: int) -> None:
        """A session subscribes, or changes the QoS of its subscription; it stands in line after its next drain."""
        if member not in self.members:
            member.missed.append(self)
        self.members[member] = qos

    def leave(self, member: "Member") -> None:
        """It unsubscribes, or its session ends. What waits when the last one has left is dropped."""
        del self.members[member]
        for those in (self.line, self.hurried):
            if member in those:
                those.remove(member)
        member.missed = [group for group in member.missed if group is not self]
        if not self.members:
            for message in self.mqueue.waiting:
                self.books.drop("session_ended", message.qos)
            self.mqueue.clear()
            self.mqueue.sent_in_round = {}

    def deliver(self, message: Message, now: int, publisher: Publisher | None = None) -> None:
        """A message comes: for whose turn it is among those that can take it, else it waits with the group."""
        self.books.count(f"offered_qos{message.qos}")
        if not self.mqueue.waiting and self._give(message):
            return
        if message.qos == 0 and not self.knobs.mqueue_store_qos0 and not any(m.connected for m in self.members):
            self.books.drop("offline_qos0", 0)  # FC-7
            return
        while not self.mqueue.fits(message) and self._is_ready() and self._press(self.mqueue.head()):
            self.mqueue.pop()  # FC-6
            self._drained()
        if not self.mqueue.waiting and not self.mqueue.fits(message) and self._press(message):
            return
        if self._makes_room(message, now, publisher):
            self.mqueue.join(message, self.books)

    # -- telling publishers (FC-34)

    def lacks_room(self, message: Message, now: int) -> bool:
        """Whether the publisher of a message of QoS 1 or 2 is told that there is no room for it."""
        while not self.mqueue.fits(message) and self._is_ready() and self._press(self.mqueue.head()):
            self.mqueue.pop()  # FC-6
            self._drained()
        self.mqueue.drop_expired(message, now, self.books)
        if self._has_place(message):
            self.telling.lacks(True, now)
            return False
        online = any(member.connected for member in self.members)
        if online:
            self.telling.away_since = None
        elif self.telling.away_since is None:
            self.telling.away_since = now
        self.telling.lacks(False, now)
        if self.mqueue.begin_episode():
            self.reports.append("shared_queue_full")
        return self.telling.tells(online, now)

    def _has_place(self, message: Message) -> bool:
        if not self.mqueue.fits(message) and not self.mqueue.waiting:
            return any(member.can_take(message) for member in self.line + self.hurried)
        return self.mqueue.fits(message) or self._is_below_share(message)

    def _is_below_share(self, message: Message) -> bool:
        """FC-33: a quiet publisher is not told that a loud one has filled the queue."""
        return self.knobs.fair and not self.mqueue.exceeds_share(message) and self.mqueue.fits(message, 2)

    def _is_ready(self) -> bool:
        """Whether there is a head to hand over; what is before it and has waited too long goes (FC-36)."""
        age = self.knobs.max_mqueue_age
        while self.mqueue.waiting and self.mqueue.head().overdue(self.pacer.now, age) == "aged":
            self.books.drop("aged", self.mqueue.pop().qos)
        return bool(self.mqueue.waiting)

    def _makes_room(self, message: Message, now: int, publisher: Publisher | None) -> bool:
        """Whether it may join (FC-5, FC-16); if not, it has been dropped."""
        mqueue = self.mqueue
        joins, began, times = False, False, 1
        if not mqueue.fits(message):
            online = any(member.connected for member in self.members)
            mqueue.keeps = self.telling.applies() and (message.qos == 0 or self.telling.tells(online, now))
            if mqueue.keeps and self.knobs.fair and message.qos and mqueue.fits(message, 2):
                return True  # it has been told that there is room
        paces = bool(self.knobs.overflow_patience) and not self.pacer.too_big(message)
        if mqueue.fits(message) or (paces and mqueue.drop_expired(message, now, self.books)):
            return True
        if paces and self._holds_back(message, publisher):
            times = 2
        if times == 2 and not self.knobs.fair:
            joins = self._fits_twice(message)
            if not joins:
                began = mqueue.begin_episode()
                self.books.drop("queue_full", message.qos)
        else:
            joins, began = mqueue.make_room(message, now, self.books, times)
        if began:
            self.reports.append("shared_queue_full")
        return joins

    def _holds_back(self, message: Message, publisher: Publisher | None) -> bool:
        """FC-16: whether publishers are held back, the one that brings a message among them if that can be."""
        if publisher is not None and publisher.connected and any(member.connected for member in self.members):
            if self.pacer.begin() and (not self.knobs.fair or self.mqueue.exceeds_share(message)):
                self.pacer.hold(publisher)
        else:
            self.pacer.look()
        return self.pacer.on

    def _fits_twice(self, message: Message) -> bool:
        return self.mqueue.fits(message, 2)

    def _drained(self) -> None:
        """Something has been handed over that waited."""
        knobs, length, size = self.knobs, len(self.mqueue.waiting), self.mqueue.bytes()
        has_place = (not knobs.max_mqueue_len or length < knobs.max_mqueue_len) and (
            not knobs.max_mqueue_bytes or size < knobs.max_mqueue_bytes
        )
        self.telling.drained(has_place, True, self.pacer.now)
        self.pacer.drained(self.mqueue)
        if self.pacer.on and self.pacer.relieved(self.mqueue, 0):
            self.pacer.end()

    def _give(self, message: Message) -> bool:
        """The first in line that can take it gets it; who cannot leaves the line, and pulls when its way is free."""
        while self.line:
            member = self.line.pop(0)
            if member.can_take(message):
                if member.at_ease():
                    self.line.append(member)
                    self._hand_over(member, message)
                    return True
                if member not in self.hurried:
                    self.hurried.append(member)
            member.missed.append(self)
        return False

    def _press(self, message: Message) -> bool:
        while self.hurried:
            member = self.hurried.pop(0)
            if member not in self.line and member.can_take(message):
                self.hurried.append(member)
                self._hand_over(member, message)
                return True
        return False

    def pull(self, member: "Member") -> str:
        """A member's way is free: it takes what it can. Returns `fed`, `passed over`, or `in line`: nothing is left."""
        waited = len(self.mqueue.waiting)
        while self._is_ready() and member.has_room() and member.can_take(self.mqueue.head()):
            self._hand_over(member, self.mqueue.pop())
        fed = len(self.mqueue.waiting) < waited  # corner: also if something has waited too long
        if fed:
            self._drained()
        if self.mqueue.waiting:
            return "fed" if fed else "passed over"
        self.mqueue.overflowing = False
        self.line.append(member)
        return "in line"

    def _hand_over(self, member: "Member", message: Message) -> None:
        """It goes out at the lower QoS of the message's and the member's own subscription [MQTT-4.8.2-3]."""
        self.books.count(f"sent_qos{message.qos}")
        member.take(replace(message, qos=min(message.qos, self.members[member])), self)

    def take_back(self, messages: list[Message]) -> int:
        """A session has ended: its unacknowledged QoS 1 goes to the head of the queue, in its order. How many that is.

        Corner: what comes back has the QoS at which it was taken.
        """
        if not self.members:
            return 0
        for message in messages:
            self.books.count(f"sent_qos{message.qos}", -1)
        self.mqueue.put_back(messages, self.books)
        while self._is_ready() and self._give(self.mqueue.head()):
            self.mqueue.pop()
            self._drained()
        return len(messages)


class Member(Model):
    """A session that may share with groups."""

    def __init__(self, knobs: Knobs, now: int) -> None:
        super().__init__(knobs, now)
        self.missed: list[Group] = []
        """Groups that had something, or may have had, while it could not take it, in the order in which it pulls."""

    # -- can it take something?

    def is_open(self) -> bool:
        """Whether what comes from a group would not have to wait here; corner: its own mailbox does not count."""
        blocked = self.congested or self._kept() or self.window_full() or self.mqueue.waiting
        return self.connected and not blocked

    def can_take(self, message: Message) -> bool:
        """Whether it could be sent at once."""
        return self.is_open() and not self._throttle(message)

    def has_room(self) -> bool:
        """Whether the pass may write more."""
        return self._outbox_bytes() < DRAIN_BYTES

    def at_ease(self) -> bool:
        """Whether it would not have too much to do: who has not goes after others."""
        return self.has_room() and not self.mailbox

    def take(self, message: Message, group: Group) -> None:
        """It is sent, unless it has expired or is too large for the client."""
        self.books.count(f"routed_qos{message.qos}")
        self._send(message)
        for inflight in self.window:
            if inflight.message is message:
                inflight.group = group

    # -- pulling

    def drain(self) -> None:
        """FC-4, then what the groups have."""
        super().drain()
        if self.connected:
            self._pull()

    def _pull(self) -> None:
        """Corner: from one group after the other; who has fed it is last next time, who could not stays ahead."""
        ahead: list[Group] = []
        last: list[Group] = []
        while self.missed and self.has_room() and self.is_open():
            group = self.missed.pop(0)
            result = group.pull(self)
            if result == "passed over":
                ahead.append(group)
            elif result == "fed":
                last.append(group)
        self.missed = ahead + self.missed + last

    def has_work(self) -> bool:
        """Also whether a group has something that it could take once its outbox has been written."""
        unwritten = self.unwritten_qos0
        if not self.congested:
            self.unwritten_qos0 = []
        pulls = any(group.mqueue.waiting and self.can_take(group.mqueue.head()) for group in self.missed)
        self.unwritten_qos0 = unwritten
        return pulls or super().has_work()

    def deadline(self) -> int | None:
        """Also when its rate lets it take what a group has."""
        due = super().deadline()
        waiting = [group.mqueue.head() for group in self.missed if group.mqueue.waiting]
        if self.rate is None or not self.is_open() or not any(self._throttle(head) == "rate" for head in waiting):
            return due
        token_at = self.rate.next_at(self.now)
        return token_at if due is None else min(due, token_at)

    def end(self) -> None:
        """What it has taken and not completed goes back, QoS 1 only [MQTT-4.8.2-5]."""
        taken = [inflight for inflight in self.window if inflight.message.qos == 1]
        super().end()
        groups = list(dict.fromkeys(inflight.group for inflight in taken if isinstance(inflight.group, Group)))
        for group in groups:
            back = group.take_back([inflight.message for inflight in taken if inflight.group is group])
            self.books.count("shared_returned", back)
