"""Models that break one rule each. What finds no disagreement with these would find none with a broken session."""

from dataclasses import replace
from typing import Final

from tests.model.group import Group, Member
from tests.model.knobs import Knobs
from tests.model.message import Message
from tests.model.mqueue import MQueue
from tests.model.session import Model
from tests.model.state import Inflight


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

    def _schedule(self, message: Message) -> None:
        if message.qos and not self.window_full() and not self._throttle(message):
            self._send(message)
        else:
            super()._schedule(message)


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
        self.batch = 0


class ResendsBackwards(Model):
    """FC-8: last sent first."""

    def _kept(self) -> list[Inflight]:
        return super()._kept()[::-1]


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

    def on_publish(self, qos: int, packet_id: int, size: int) -> bool:
        for pending in self.inbound.awaiting_rel:
            pending.here = False
        return super().on_publish(qos, packet_id, size)


class RoutesTwice(Model):
    """FC-21: QoS 2 is not remembered."""

    def answer(self, qos: int, packet_id: int, reason_code: int) -> None:
        super().answer(qos, packet_id, reason_code)
        self.inbound.awaiting_rel = []


class RemembersForever(Model):
    """FC-22: `await_rel_timeout` has no effect."""

    def on_timer(self) -> list[tuple[object, ...]] | None:
        awaiting = self.inbound.awaiting_rel
        packets = super().on_timer()
        self.inbound.awaiting_rel = awaiting
        return packets


class NewestFirst(MQueue):
    """FC-5: the policies the wrong way round."""

    def victim(self, newcomer: Message) -> Message:
        victim = super().victim(newcomer)
        return self.waiting[-1] if self.waiting and victim is newcomer else victim


class DropsNewest(Model):
    """FC-5: the newcomer never goes."""

    def run_pass(self) -> None:
        if not isinstance(self.mqueue, NewestFirst):
            waiting = self.mqueue.waiting
            self.mqueue = NewestFirst(self.knobs)
            self.mqueue.waiting = waiting
        super().run_pass()


class AlwaysTheFirst(Group):
    """FC-13: who gets something stays first in line."""

    def _give(self, message: Message) -> bool:
        line = list(self.line)
        given = super()._give(message)
        if given:
            self.line = [member for member in line if member in self.line]
        return given


class KeepsWhatIsBack(Group):
    """FC-13: what comes back goes to the tail."""

    def take_back(self, messages: list[Message]) -> int:
        waiting = self.mqueue.waiting
        back = super().take_back(messages)
        if self.mqueue.waiting[: len(messages)] == messages:
            self.mqueue.waiting = waiting + messages
        return back


class DropsUnpressed(Group):
    """FC-6, FC-13: drops though a member that has enough to do could take it."""

    def _press(self, message: Message) -> bool:
        return False


class HighestQos(Group):
    """FC-13: the QoS of a member's own subscription does not matter."""

    def join(self, member: Member, qos: int) -> None:
        super().join(member, 2)


class StoresForNobody(Group):
    """FC-7, FC-13: QoS 0 is kept though nobody is online."""

    def __init__(self, knobs: Knobs) -> None:
        super().__init__(replace(knobs, mqueue_store_qos0=True))


MODELS: Final[list[type[Model]]] = [
    WindowTooLarge, LowestId, Overtakes, GateOrder, NeverBusy, RareSamples, DropsNewest, DropsTooEarly, StoresAll,
    ResendsBackwards, RetriesAlways, ForgetsBytes, BurstsFar, StartsRoundsAnew, SlowForever, StallsWhileMoving,
    NoCredit, RoutesTwice, RemembersForever,
]  # fmt: skip
GROUPS: Final[list[type[Group]]] = [AlwaysTheFirst, KeepsWhatIsBack, DropsUnpressed, HighestQos, StoresForNobody]
