"""FC-16: which publishers a queue holds back, for how long, and when it gives up."""

from fractions import Fraction
from typing import Final

from tests.model.knobs import Knobs
from tests.model.message import SECOND, Message
from tests.model.mqueue import MQueue

STALLED: Final = 300_000
LONGEST: Final = SECOND
LEAST: Final = SECOND // 10
"""A bucket with less in it counts as empty."""
MAILBOX_ROOM: Final = 1_024


class Bucket:
    """Microseconds of patience; corner: one that nobody ever had to draw on is full all the same."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.level = Fraction(capacity)
        self.used = 0
        """For how long it has been emptied, in all."""

    def tick(self, passed: int, emptied: bool) -> None:
        """Time passes: a twentieth comes in, and where it is emptied all of it goes out."""
        if emptied:
            self.used += passed
        self.level = min(self.level + Fraction(passed, 20) - (passed if emptied else 0), Fraction(self.capacity))

    def empty(self) -> bool:
        """Whether it counts as that."""
        return self.level < LEAST


class Publisher:
    """A session, as far as it publishes."""

    def __init__(self, knobs: Knobs) -> None:
        self.connected = False
        self.bucket = Bucket(knobs.overflow_patience)
        self.held_by: list[Pacer] = []

    def tick(self, passed: int) -> None:
        """Its bucket is emptied while anything holds it back, once."""
        self.bucket.tick(passed, bool(self.held_by))

    def look(self) -> None:
        """Its timer fires."""
        for pacer in list(self.held_by):
            pacer.look()
        if self.bucket.empty():
            self.go()

    def go(self) -> None:
        """All let it go: its patience is at an end, or its connection gone."""
        for pacer in list(self.held_by):
            pacer.let_go(self)

    def deadline(self, now: int) -> int | None:
        """When it has to be looked at, at the latest: nobody overdraws a bucket, or holds for what has stalled."""
        if not self.held_by:
            return None
        buckets = [self.bucket] + [pacer.bucket for pacer in self.held_by]
        lasts = min(bucket.level - LEAST for bucket in buckets) * Fraction(20, 19)
        stalled = [pacer.drained_at + pacer.patient_for for pacer in self.held_by]
        return min([now + int(max(lasts, Fraction(0))) + 1, *stalled])


class Pacer:
    """An mqueue or shared queue, as far as it holds back publishers."""

    def __init__(self, knobs: Knobs, now: int) -> None:
        self.knobs = knobs
        self.now = now
        self.bucket = Bucket(knobs.overflow_patience)
        self.on = False
        """Whether it holds back whoever brings something, if it can."""
        self.held: list[Publisher] = []
        self.drained_at = 0
        """When it last drained something, or began to hold back."""
        self.stalled = False
        """Whether it has failed because nothing drained, and nothing has since."""
        self.patient_for = STALLED
        """For how long it may drain nothing: longer after pauses that have come to an end, on one connection."""
        self.spent = False
        """Whether it has failed for a bucket, and not run empty since."""

    def tick(self, now: int) -> None:
        """Its bucket is emptied while it holds back anybody."""
        self.bucket.tick(now - self.now, bool(self.held))
        self.now = now

    def moved(self) -> None:
        """Something has left the queue or the window."""
        if self.on:
            self.patient_for = max(self.patient_for, min(4 * (self.now - self.drained_at), LONGEST))
        self.drained_at = self.now
        self.stalled = False

    def drained(self, mqueue: MQueue) -> None:
        """Something has left the queue."""
        self.moved()
        if not mqueue.waiting:
            self.empty()

    def empty(self) -> None:
        """Nothing waits in the queue."""
        self.spent = self.stalled = False

    def connected(self) -> None:
        """A new client reads, perhaps faster."""
        self.stalled = False
        self.patient_for = STALLED

    def begin(self) -> bool:
        """A delivery would overflow it. Returns whether it may wait instead."""
        self.look()
        if not self.on and not self.spent and not self.stalled:
            if self.bucket.empty():
                self.spent = True
            else:
                self.on = True
                self.drained_at = self.now
        return self.on

    def hold(self, publisher: Publisher) -> bool:
        """Hold one back that brings something; False if that cannot be."""
        if publisher in self.held:
            return True
        self.look()
        if publisher.bucket.empty():
            if self.on and not self.held:
                self.fail()  # the only one whom it could hold back
            return False
        if self.on:
            self.held.append(publisher)
            publisher.held_by.append(self)
        return self.on

    def admits(self, publisher: Publisher | None, message: Message, has_room: bool) -> bool:
        """Whether a delivery joins the mailbox while it is on; its publisher is held back if that can be."""
        if publisher is not None and publisher.connected and self.hold(publisher):
            return True
        return not self.on or has_room

    def fits_mailbox(self, message: Message, mailbox: list[Message]) -> bool:
        """Whether the mailbox has room for what nobody can be held back for."""
        most = self.knobs.max_mqueue_bytes
        fits = not most or sum(waiting.size for waiting in mailbox) + message.size <= most
        return len(mailbox) < MAILBOX_ROOM and fits

    def look(self) -> None:
        """It fails if it has stalled, or its bucket is empty."""
        if self.on and self.bucket.empty():
            self.fail()
        elif self.on and self._too_long():
            self.stalled = True
            self.end()

    def _too_long(self) -> bool:
        return self.now >= self.drained_at + self.patient_for

    def relieved(self, mqueue: MQueue, mailbox: int) -> bool:
        """Whether what waits is down to half of the limits."""
        length, size = self.knobs.max_mqueue_len, self.knobs.max_mqueue_bytes
        if length and len(mqueue.waiting) + mailbox > length // 2:
            return False
        return not size or (not mailbox and mqueue.bytes() <= size // 2)

    def fail(self) -> None:
        """A bucket is empty: it does not begin again before it has run empty."""
        self.spent = True
        self.end()

    def end(self) -> None:
        """All go on."""
        self.on = False
        for publisher in self.held:
            publisher.held_by.remove(self)
        self.held = []

    def let_go(self, publisher: Publisher) -> None:
        """One goes on; corner: if it was the last one and has no patience left, there is nobody to hold back."""
        self.held.remove(publisher)
        publisher.held_by.remove(self)
        if not self.held and publisher.bucket.empty():
            self.fail()

    def too_big(self, message: Message) -> bool:
        """Whether it could not wait even alone."""
        return 0 < self.knobs.max_mqueue_bytes < message.size
