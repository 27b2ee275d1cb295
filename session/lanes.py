"""A queue of several lanes under one limit: what the queues of weights (FC-12) and of flows (FC-33) have in common."""

from collections.abc import Callable

from mypy_extensions import i64

from protocol.publish import Publish
from session.conflation import Newest, Slot
from session.journal import QueueJournal
from session.limits import DROP_ARRIVAL, DROP_NEWEST, DROP_OLDEST_QOS0, Limits
from session.mqueue import MQueue, never_fits


class Lane(MQueue):
    """A queue that is a part of another one."""

    def __init__(self, number: int = 0, newest: Newest | None = None) -> None:
        super().__init__(number, newest)
        self.left: i64 = 0
        """How much it may still send in this round: deliveries of a weight, or bytes of a flow."""

    def head_size(self) -> int:
        """The payload bytes of the next delivery, in memory or not. Raises IndexError if there is none."""
        head = self.head()
        return head.size if head is not None else self._first_on_disk()

    def _first_on_disk(self) -> int:
        """The payload bytes of the first delivery that is on disk only."""
        if self.tail is None:
            raise IndexError("nothing waits")
        return self.tail.first()[0]

    def seek(self, is_open: Callable[[Publish], bool]) -> bool:
        """FC-33, keyed groups: have a head that is in memory and open; False if there is none."""
        head = self.head()
        return head is not None and is_open(head)

    def has_before(self, publish: Publish) -> bool:
        """FC-33, keyed groups: whether something waits that a delivery must not overtake, other flows aside."""
        return self.length > 0

    def drop(self, policy: str) -> Publish:
        """Remove and return a delivery, as `drop_head`, for one of another lane. Raises IndexError if there is none."""
        if policy == DROP_NEWEST:
            return self._drop_newest()
        if policy == DROP_OLDEST_QOS0 and self.waiting_qos0:
            return self._pop_oldest_qos0()
        return self.drop_head()

    def _drop_newest(self) -> Publish:
        """Remove and return what has joined last, as `drop_head`. Raises IndexError if there is none."""
        tail = self.tail
        if tail is not None and not tail.behind:
            return self._drop_from(tail, newest=True)
        publish = self.deliveries.pop_last() if tail is None else tail.behind.pop()
        if self.newest is not None:
            publish = self.newest.leave(publish)
        self._left(publish)
        self._first_qos0 = min(self._first_qos0, len(self.deliveries))
        return publish


class Lanes(Lane):
    """Each delivery waits in one lane. A subclass says in which, which lane is next, and which one drops."""

    def __init__(self, number: int = 0, newest: Newest | None = None) -> None:
        super().__init__(number, newest)
        self.turn: Lane | None = None
        """The lane that is next; None = all are empty."""
        self.has_tail = False
        """FC-30: whether a lane may have deliveries that are on disk only."""

    def lane(self, publish: Publish) -> Lane:
        """The lane of a delivery; it is made if there is none."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def numbered(self, number: int) -> Lane:
        """The lane in which a delivery waits that is in the lane of this number; with lanes of its own or not."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def lanes(self) -> list[Lane]:
        """All lanes in which something waits, and maybe others."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def fullest(self, own: Lane | None, arrival: Publish | None, policy: str) -> Lane:
        """The lane that drops a delivery for `arrival`, whose lane is `own`; None = it joins another queue.

        Raises IndexError if nothing waits.
        """
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def note_joined(self, lane: Lane) -> None:
        """A delivery has joined a lane that was empty."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def note_left(self, lane: Lane) -> None:
        """A delivery has left a lane, or come to its head."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def note_sent(self, lane: Lane, size: int) -> None:
        """The lane that had its turn has sent its head, with a payload of `size` bytes."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def end_seek(self) -> None:
        """Have the head that it has without `seek`."""

    def append(self, publish: Publish) -> None:
        """Add at the end of its lane. The caller has made room."""
        lane = self.lane(publish)
        lane.append(publish)
        self._count(publish.qos, publish.size, 1)
        if lane.length == 1:
            self.note_joined(lane)

    def replace(self, slot: Slot, publish: Publish) -> bool:
        """FC-37: put a delivery into the place of the older one of its topic, whose lane it has then."""
        lane = self.numbered(slot.lane)
        self._count(slot.qos, slot.size, -1)
        replaced = lane.replace(slot, publish)
        if replaced:
            self._count(publish.qos, publish.size, 1)
        self.note_left(lane)
        return replaced

    def push_front(self, publish: Publish) -> None:
        """Put back at the head of its lane (FC-13)."""
        lane = self.lane(publish)
        lane.push_front(publish)
        self._count(publish.qos, publish.size, 1)
        if lane.length == 1:
            self.note_joined(lane)
        else:
            self.note_left(lane)

    def begin_tail(self, publish: Publish, journal: QueueJournal, on_read: Callable[[], None]) -> None:
        """FC-30: what joins the lane of `publish` from now on is on disk only."""
        lane = self.lane(publish)
        if lane.tail is None:
            lane.begin_tail(publish, journal, on_read)
        self.has_tail = True

    def head_size(self) -> int:
        """The payload bytes of the next delivery, in memory or not. Raises IndexError if there is none."""
        return self._turn().head_size()

    def is_blocking(self) -> bool:
        """Whether PUBLISHes wait for room in the address of a delivery that waits here (FC-25)."""
        return any(lane.is_blocking() for lane in self.lanes())

    def head(self) -> Publish | None:
        """The next delivery, until one joins or leaves; None = nothing waits, or it has to be read back first.

        No other lane is sent from meanwhile.
        """
        return None if self.turn is None else self.turn.head()

    def pop(self) -> Publish:
        """Remove and return the head. Raises IndexError if there is none."""
        turn = self._turn()
        publish = turn.pop()
        self._count(publish.qos, publish.size, -1)
        self.note_sent(turn, publish.size)
        return publish

    def drop_head(self) -> Publish:
        """Remove and return the head; of one on disk only, what is known of it. Raises IndexError if there is none."""
        turn = self._turn()
        publish = turn.drop_head()
        self._count(publish.qos, publish.size, -1)
        self.note_sent(turn, publish.size)
        return publish

    def oldest(self) -> int:
        """When the first delivery of a lane was received that has waited longest; 0 = nothing waits."""
        return min([lane.oldest() for lane in self.lanes() if lane.length], default=0)

    def drop_aged(self, before: int) -> list[Publish]:
        """FC-36: drop what waits since before this time, from the head of each lane on; returns each as `drop_head`."""
        dropped: list[Publish] = []
        for lane in self.lanes():
            of_lane = lane.drop_aged(before)
            if of_lane:
                for publish in of_lane:
                    self._count(publish.qos, publish.size, -1)
                self.note_left(lane)
                dropped += of_lane
        return dropped

    def victim(self, arrival: Publish, limits: Limits) -> Publish:
        """Remove and return what FC-5's policy drops, as `drop_head`; this may be the arrival itself."""
        if self._takes_nothing(arrival, limits):
            return arrival
        own = self.lane(arrival)
        lane = self.fullest(own, arrival, limits.mqueue_overflow)
        waiting = lane.length
        victim = lane.victim(arrival, limits) if lane is own else lane.drop(limits.mqueue_overflow)
        if lane.length < waiting:  # else it is the arrival
            self._dropped(lane, victim)
        return victim

    def _takes_nothing(self, arrival: Publish, limits: Limits) -> bool:
        """Whether the arrival is dropped, whatever waits."""
        return (
            not self.length
            or self.keeps  # FC-34
            or limits.mqueue_overflow == DROP_ARRIVAL
            or never_fits(arrival, limits)
        )

    def drop(self, policy: str) -> Publish:
        """As a lane of another queue: remove and return a delivery. Raises IndexError if there is none."""
        lane = self.fullest(None, None, policy)
        victim = lane.drop(policy)
        self._dropped(lane, victim)
        return victim

    def _dropped(self, lane: Lane, victim: Publish) -> None:
        """A lane has dropped one of its deliveries."""
        self._count(victim.qos, victim.size, -1)
        self.note_left(lane)

    def _turn(self) -> Lane:
        if self.turn is None:
            raise IndexError("nothing waits")
        return self.turn


def count_restored(queue: Lanes, lane: Lane) -> None:
    """FC-27: count what waits in a lane that has been restored."""
    queue.length += lane.length
    queue.bytes += lane.bytes
    queue.waiting_qos1 += lane.waiting_qos1
    queue.waiting_qos2 += lane.waiting_qos2
