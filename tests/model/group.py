"""FC-13: shared subscriptions as queues that members pull from, in turn among those that can take something."""

from dataclasses import replace

from tests.model.books import Books
from tests.model.knobs import Knobs
from tests.model.message import Message
from tests.model.mqueue import MQueue
from tests.model.pacing import Pacer, Publisher
from tests.model.sending import DRAIN_BYTES
from tests.model.session import Model
from tests.model.state import Inflight
from tests.model.telling import Telling
from tests.model.turns import IsOpen


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
        self.takers: list[Member] = []
        """All sessions that have taken something."""
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
        if self._goes_first(message) and self._give(message):
            return
        if message.qos == 0 and not self.knobs.mqueue_store_qos0 and not any(m.connected for m in self.members):
            self.books.drop("offline_qos0", 0)  # FC-7
            return
        self._press_until_it_fits(message)
        if not self.mqueue.fits(message) and self._goes_first(message) and self._press(message):
            return
        if self._makes_room(message, now, publisher):
            self.mqueue.join(message, self.books)
        self._heads_changed()

    def _press_until_it_fits(self, message: Message) -> None:
        """FC-6."""
        while not self.mqueue.fits(message) and (head := self._next(self.hurried)) is not None:
            if self._press(head):
                self.mqueue.take(head)
                self._drained()
            elif not self.hurried:
                break

    # -- one flow to one member at a time (FC-33)

    def holder(self, message: Message) -> "Member | None":
        """Who has something unacknowledged of its flow: nobody else may get it."""
        if self.knobs.keyed:
            for member in self.takers:
                if any(each.group is self and each.message.own_flow == message.own_flow for each in member.window):
                    return member
        return None

    def _goes_first(self, message: Message) -> bool:
        """Whether it overtakes nothing that it must not."""
        return not self.mqueue.waiting or (self.knobs.keyed and not self.mqueue.is_before(message))

    def _open_to(self, members: list["Member"]) -> IsOpen:
        def is_open(message: Message) -> bool:
            holder = self.holder(message)
            return holder is None or holder in members

        return is_open

    def peek(self, member: "Member") -> Message | None:
        """What a member would get next."""
        if self.knobs.keyed:
            return self.mqueue.peek(self._open_to([member]))
        return self.mqueue.head() if self.mqueue.waiting else None

    def completed(self, message: Message) -> None:
        """A session has acknowledged it, or given it up: who is in line gets what has waited for that."""
        if self.knobs.keyed and self.holder(message) is None:
            if self.line:
                self._dispatch()
            self._heads_changed()

    def _heads_changed(self) -> None:
        """Corner (FC-37): what replaces another's is of another flow, so it may be open where that was not."""
        if self.knobs.keyed and self.knobs.conflate:
            self._dispatch()

    def _dispatch(self) -> None:
        """Who is in line gets what waits."""
        while (head := self._next(self.line)) is not None:
            if self._give(head):
                self.mqueue.take(head)
                self._drained()
            elif not self.line:
                break

    # -- telling publishers (FC-34)

    def lacks_room(self, message: Message, now: int) -> bool:
        """Whether the publisher of a message of QoS 1 or 2 is told that there is no room for it."""
        if not self.mqueue.fits(message):
            self._press_until_it_fits(message)
            self.mqueue.drop_expired(message, now, self.books)
            self._heads_changed()
        if self._has_place(message):
            self.telling.lacks(True, _is_full(self.mqueue), now)
            return False
        online = any(member.connected for member in self.members)
        if online:
            self.telling.away_since = None
        elif self.telling.away_since is None:
            self.telling.away_since = now
        self.telling.lacks(False, True, now)
        if self.mqueue.begin_episode():
            self.reports.append("shared_queue_full")
        return self.telling.tells(online, now)

    def _has_place(self, message: Message) -> bool:
        is_below_share = self.knobs.fair and not self.mqueue.exceeds_share(message)
        if self.mqueue.fits(message) or (is_below_share and self.mqueue.fits(message, 2)):
            return True  # FC-33: a quiet publisher is not told that a loud one has filled the queue
        holder = self.holder(message)
        takers = [member for member in self.line + self.hurried if holder in {None, member}]
        return self._goes_first(message) and any(member.can_take(message) for member in takers)

    def _next(self, members: list["Member"]) -> Message | None:
        """What is next for these; what is before it and has waited too long goes (FC-36)."""
        age = self.knobs.max_mqueue_age
        while (head := self._head(members)) is not None and head.overdue(self.pacer.now, age) == "aged":
            self.books.drop("aged", self.mqueue.take(head).qos)
        return head

    def _head(self, members: list["Member"]) -> Message | None:
        if self.knobs.keyed:
            return self.mqueue.seek(self._open_to(members))
        return self.mqueue.head() if self.mqueue.waiting else None

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
        self.telling.drained(not _is_full(self.mqueue), True, self.pacer.now)
        self.pacer.drained(self.mqueue)
        if self.pacer.on and self.pacer.relieved(self.mqueue, 0):
            self.pacer.end()

    def _give(self, message: Message) -> bool:
        """The first in line that can take it gets it; who cannot leaves the line, and pulls when its way is free."""
        holder = self.holder(message)
        for member in [member for member in self.line if holder in {None, member}]:
            self.line.remove(member)
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
        holder = self.holder(message)
        for member in [member for member in self.hurried if holder in {None, member}]:
            self.hurried.remove(member)
            if member not in self.line and member.can_take(message):
                self.hurried.append(member)
                self._hand_over(member, message)
                return True
        return False

    def pull(self, member: "Member") -> str:
        """A member's way is free: it takes what it can. Returns `fed`, `passed over`, or `in line`: nothing is left."""
        waited = len(self.mqueue.waiting)
        while (head := self._next([member])) is not None and member.has_room() and member.can_take(head):
            self._hand_over(member, self.mqueue.take(head))
        fed = len(self.mqueue.waiting) < waited  # corner: also if something has waited too long
        if fed:
            self._drained()
            self._heads_changed()
        if self._next([member]) is not None if self.knobs.keyed else self.mqueue.waiting:
            return "fed" if fed else "passed over"
        if not self.mqueue.waiting:
            self.mqueue.overflowing = False
        self.line.append(member)
        return "in line"

    def _hand_over(self, member: "Member", message: Message) -> None:
        """It goes out at the lower QoS of the message's and the member's own subscription [MQTT-4.8.2-3]."""
        self.books.count(f"sent_qos{message.qos}")
        if member not in self.takers:
            self.takers.append(member)
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
        self._dispatch()
        self._heads_changed()
        return len(messages)


class Member(Model):
    """A session that may share with groups."""

    def __init__(self, knobs: Knobs, now: int) -> None:
        super().__init__(knobs, now)
        self.missed: list[Group] = []
        """Groups that had something, or may have had, while it could not take it, in the order in which it pulls."""
        self.resends = False
        """Corner: while it resends what it has kept, it takes nothing."""

    # -- can it take something?

    def is_open(self) -> bool:
        """Whether what comes from a group would not have to wait here; corner: its own mailbox does not count."""
        blocked = self.congested or self.resends or self._kept() or self.window_full() or self.mqueue.waiting
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

    def _resend_kept(self) -> None:
        self.resends = True
        super()._resend_kept()
        self.resends = False

    def _completed(self, inflight: Inflight) -> None:
        if isinstance(inflight.group, Group):
            inflight.group.completed(inflight.message)

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
        heads = [group.peek(self) for group in self.missed]
        pulls = any(head is not None and self.can_take(head) for head in heads)
        self.unwritten_qos0 = unwritten
        return pulls or super().has_work()

    def deadline(self) -> int | None:
        """Also when its rate lets it take what a group has."""
        due = super().deadline()
        waiting = [head for head in [group.peek(self) for group in self.missed] if head is not None]
        if self.rate is None or not self.is_open() or not any(self._throttle(head) == "rate" for head in waiting):
            return due
        token_at = self.rate.next_at(self.now)
        return token_at if due is None else min(due, token_at)

    def end(self) -> None:
        """What it has taken and not completed goes back, QoS 1 only [MQTT-4.8.2-5]."""
        taken = [inflight for inflight in self.window if inflight.message.qos == 1 or self.knobs.keyed]
        super().end()
        groups = list(dict.fromkeys(inflight.group for inflight in taken if isinstance(inflight.group, Group)))
        for group in groups:
            own = [inflight.message for inflight in taken if inflight.group is group]
            back = group.take_back([message for message in own if message.qos == 1])
            self.books.count("shared_returned", back)


def _is_full(mqueue: MQueue) -> bool:
    """Whether no delivery of a byte has a place."""
    knobs = mqueue.knobs
    return 0 < knobs.max_mqueue_len <= len(mqueue.waiting) or 0 < knobs.max_mqueue_bytes <= mqueue.bytes()
