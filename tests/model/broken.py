"""Models that break one rule each. What finds no disagreement with these would find none with a broken session."""

from contextlib import suppress
from dataclasses import replace
from typing import Final

from tests.model.broken_conflation import AllWait, NeedsRoom, OvertakesItself, ToTheEnd, queued_in
from tests.model.inbound import ClosedError
from tests.model.knobs import Knobs
from tests.model.message import Message
from tests.model.mqueue import MQueue
from tests.model.pacing import Bucket, Pacer
from tests.model.session import Model
from tests.model.state import Inflight
from tests.model.telling import Telling

FOR_EVER: Final = 1 << 60
"""Microseconds."""


class WindowTooLarge(Model):
    """FC-1: one too many."""

    def window_full(self) -> bool:
        return len(self.window) > self.window_limit


class LowestId(Model):
    """FC-1: packet ids are used again at once."""

    def _free_id(self) -> int:
        self.last_id = 0
        return super()._free_id()


class Overtakes(Model):
    """FC-2: QoS 1 and 2 go ahead of what waits."""

    def _closed(self, message: Message) -> str:
        if message.qos and not self.window_full() and not self._throttle(message):
            return ""
        return super()._closed(message)


class GateOrder(Model):
    """FC-3: the reasons in another order."""

    def _gate(self) -> str:
        if self.knobs.gate and self.window_full():
            return "window_full"
        return super()._gate()


class NeverBusy(Model):
    """FC-3: the mailbox does not matter."""

    def _sample_mailbox(self) -> None:
        super()._sample_mailbox()
        self.mailbox_busy = False


class RareSamples(Model):
    """FC-3: only at the end of passes."""

    def _send(self, message: Message) -> None:
        self.sends = 0
        super()._send(message)


class DropsTooEarly(Model):
    """FC-6: makes room before it sends."""

    def may_go(self, message: Message) -> bool:
        return self.mqueue.fits(message) and super().may_go(message)


class StoresAll(Model):
    """FC-7: `mqueue_store_qos0` is not asked."""

    def _store_offline(self) -> None:
        for message in self.mailbox:
            self._queue(message)
        self.mailbox = []


class ResendsBackwards(Model):
    """FC-8: last sent first."""

    def _kept(self) -> list[Inflight]:
        return super()._kept()[::-1]


class ResendsAtOnce(Model):
    """FC-38: all of a kept window in one pass."""

    def _outbox_bytes(self) -> int:
        return 0 if self._kept() else super()._outbox_bytes()


class RetriesAlways(Model):
    """FC-8: in MQTT 5 too."""

    def _retry(self) -> None:
        version, self.version = self.version, 4
        super()._retry()
        self.version = version


class ForgetsBytes(Model):
    """FC-10: QoS 0 in the transport does not count."""

    def _bytes_closed(self, message: Message, unwritten: list[Message]) -> bool:
        return super()._bytes_closed(message, [])


class PayloadOnly(Model):
    """FC-24a: an address counts payload bytes."""

    def _cost(self, message: Message) -> int:
        return message.size


class BurstsFar(Model):
    """FC-11: a whole second's worth may be saved up."""

    def _send(self, message: Message) -> None:
        if self.rate is not None:
            self.rate.capacity = max(self.rate.capacity, self.rate.capacity * 0 + self.rate.per_second)
        super()._send(message)


class StartsRoundsAnew(Model):
    """FC-12: the heaviest always goes first."""

    def drain(self) -> None:
        self.mqueue.sent_in_round = {}
        super().drain()


class SlowForever(Model):
    """FC-14: reported in each period."""

    def on_timer(self) -> list[tuple[object, ...]] | None:
        self.slow.told_slow = False
        return super().on_timer()


class StallsWhileMoving(Model):
    """FC-14: an acknowledgement does not end a stall."""

    def acknowledge(self, kind: str, packet_id: int, reason_code: int) -> None:
        moved_at = self.slow.moved_at
        super().acknowledge(kind, packet_id, reason_code)
        self.slow.moved_at = moved_at


class NoCredit(Model):
    """FC-20: what waits for PUBREL does not count."""

    def on_publish(self, qos: int, packet_id: int, size: int, dup: bool) -> bool:
        for pending in self.inbound.awaiting_rel:
            pending.here = False
        return super().on_publish(qos, packet_id, size, dup)


class RoutesTwice(Model):
    """FC-21: QoS 2 is not remembered."""

    def answer(self, qos: int, packet_id: int, reason_code: int) -> None:
        super().answer(qos, packet_id, reason_code)
        self.inbound.awaiting_rel = []


class TakesAnyAcknowledgement(Model):
    """FC-21: an acknowledgement of the wrong kind is ignored."""

    def acknowledge(self, kind: str, packet_id: int, reason_code: int) -> None:
        with suppress(ClosedError):
            super().acknowledge(kind, packet_id, reason_code)


class ParksForever(Model):
    """FC-22: a PUBREL lets nothing in."""

    def on_pubrel(self, packet_id: int) -> None:
        waiting, self.inbound.waiting = self.inbound.waiting, []
        super().on_pubrel(packet_id)
        self.inbound.waiting = waiting


class ParksWithoutEnd(Model):
    """FC-22: `producer_window_size` has no effect on what waits for an id."""

    def __init__(self, knobs: Knobs, now: int) -> None:
        super().__init__(replace(knobs, producer_window_size=1 << 40), now)


class RemembersForever(Model):
    """FC-22: `await_rel_timeout` has no effect."""

    def on_timer(self) -> list[tuple[object, ...]] | None:
        awaiting = self.inbound.awaiting_rel
        packets = super().on_timer()
        self.inbound.awaiting_rel = awaiting
        return packets


class ForgetsAltogether(Model):
    """FC-22a: an overdue id is as unknown as one that was never there."""

    def on_timer(self) -> list[tuple[object, ...]] | None:
        packets = super().on_timer()
        self.inbound.forgotten = []
        return packets


class NewestFirst(MQueue):
    """FC-5: the policies the wrong way round."""

    def victim(self, arrival: Message) -> Message:
        victim = super().victim(arrival)
        return self.waiting[-1] if self.waiting and victim is arrival else victim


class DropsNewest(Model):
    """FC-5: the arrival never goes."""

    def run_pass(self) -> None:
        if not isinstance(self.mqueue, NewestFirst):
            waiting = self.mqueue.waiting
            self.mqueue = NewestFirst(self.knobs)
            self.mqueue.waiting = waiting
        super().run_pass()


class Fluttering(Pacer):
    """FC-16: all are let go as soon as there is room for one."""

    def relieved(self, mqueue: MQueue, mailbox: int) -> bool:
        return not self.knobs.max_mqueue_len or len(mqueue.waiting) < self.knobs.max_mqueue_len


class Trusting(Pacer):
    """FC-16: holds back for who has drained nothing for long."""

    def _too_long(self) -> bool:
        return False


class Recovering(Pacer):
    """FC-16: begins again with what has come into the bucket, without having run empty."""

    def begin(self) -> bool:
        self.spent = False
        return super().begin()


class Holding(Pacer):
    """FC-16: whose connection is gone is held back all the same."""

    def end(self) -> None:
        self.on = False


class Dry(Bucket):
    """FC-16: nothing comes in."""

    def tick(self, passed: int, emptied: bool) -> None:
        super().tick(passed if emptied else 0, emptied)


def paced_by(pacer: type[Pacer]) -> type[Model]:
    """A model with another pacer."""

    class Paced(Model):
        def __init__(self, knobs: Knobs, now: int) -> None:
            super().__init__(knobs, now)
            self.pacer = pacer(knobs, now)

    Paced.__name__ = pacer.__name__
    return Paced


class NotRefilled(Model):
    """FC-16: nothing comes into the bucket of the queue."""

    def __init__(self, knobs: Knobs, now: int) -> None:
        super().__init__(knobs, now)
        self.pacer.bucket = Dry(knobs.overflow_patience)


class HeldForever(Model):
    """FC-16: a publisher is held back although its connection is gone."""

    def _stop_pacing(self) -> None:
        self.publisher.connected = False


class TellsForEver(Model):
    """FC-34: a client that takes nothing stops its publishers for ever."""

    def __init__(self, knobs: Knobs, now: int) -> None:
        super().__init__(knobs, now)
        self.telling = Telling(replace(knobs, overflow_timeout=FOR_EVER))


class TellsOfTheAbsent(Model):
    """FC-34: so does a client that is away."""

    def __init__(self, knobs: Knobs, now: int) -> None:
        super().__init__(knobs, now)
        self.telling = Telling(replace(knobs, overflow_offline_grace=FOR_EVER))


class TellsTooLate(Model):
    """FC-34: what is in the mailbox needs no room."""

    def _has_place(self, message: Message | None, times: int = 1) -> bool:
        mailbox, self.mailbox = self.mailbox, []
        has_place = super()._has_place(message, times)
        self.mailbox = mailbox
        return has_place


class DropsPromised(Model):
    """FC-34: what waits goes for what arrives, though publishers are told."""

    def _queue(self, message: Message) -> None:
        telling, self.telling = self.telling, Telling(replace(self.knobs, mqueue_overflow="drop_oldest"))
        super()._queue(message)
        self.telling = telling


MODELS: Final[list[type[Model]]] = [
    WindowTooLarge, LowestId, Overtakes, GateOrder, NeverBusy, RareSamples, DropsNewest, DropsTooEarly, StoresAll,
    ResendsBackwards, ResendsAtOnce, RetriesAlways, ForgetsBytes, BurstsFar, StartsRoundsAnew, SlowForever,
    StallsWhileMoving, NoCredit, RoutesTwice, RemembersForever, ForgetsAltogether, TakesAnyAcknowledgement,
    ParksForever, ParksWithoutEnd, TellsForEver, TellsOfTheAbsent, TellsTooLate, DropsPromised,
    *map(queued_in, [ToTheEnd, AllWait, NeedsRoom]), OvertakesItself,
    *map(paced_by, [Fluttering, Trusting, Recovering, Holding]), NotRefilled, HeldForever, PayloadOnly,
]  # fmt: skip
