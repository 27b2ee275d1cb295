"""Models of groups that break one rule each, as those of sessions in broken.py."""

from dataclasses import replace
from typing import Final

from tests.model.broken import FOR_EVER
from tests.model.broken_conflation import KeepsWhatIsOld
from tests.model.group import Group, Member
from tests.model.knobs import Knobs
from tests.model.message import Message
from tests.model.pacing import Publisher
from tests.model.telling import Telling


class DropsTheFirst(Group):
    """FC-16, FC-13: what comes for a queue that holds back pushes out what waits."""

    def _fits_twice(self, message: Message) -> bool:
        if super()._fits_twice(message) and self.mqueue.waiting:
            self.mqueue.make_room(message, self.pacer.now, self.books)
        return super()._fits_twice(message)


class PacesForNobody(Group):
    """FC-16, FC-13: holds back though no member is online."""

    def _holds_back(self, message: Message, publisher: Publisher | None) -> bool:
        if publisher is not None and publisher.connected and self.pacer.begin():
            self.pacer.hold(publisher)
        return super()._holds_back(message, publisher)


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
        back = super().take_back(messages)
        first, others = self.mqueue.waiting[: len(messages)], self.mqueue.waiting[len(messages) :]
        if [message.text for message in first] == [message.text for message in messages]:
            self.mqueue.waiting = others + first
        return back


class DropsUnpressed(Group):
    """FC-6, FC-13: drops though a member that has enough to do could take it."""

    def _press(self, message: Message) -> bool:
        return False


class HighestQos(Group):
    """FC-13: the QoS of a member's own subscription does not matter."""

    def join(self, member: Member, qos: int) -> None:
        super().join(member, 2)


class GroupTellsForEver(Group):
    """FC-34: a group whose members take nothing stops publishers for ever."""

    def __init__(self, knobs: Knobs, now: int) -> None:
        super().__init__(knobs, now)
        self.telling = Telling(replace(knobs, overflow_timeout=FOR_EVER))


class StoresForNobody(Group):
    """FC-7, FC-13: QoS 0 is kept though nobody is online."""

    def __init__(self, knobs: Knobs, now: int) -> None:
        super().__init__(replace(knobs, mqueue_store_qos0=True), now)


class ForgetsPins(Group):
    """FC-33: any member gets what comes of a flow, though another has some of it unacknowledged."""

    def holder(self, message: Message) -> Member | None:
        return None


class PinsForEver(Group):
    """FC-33: who has had something of a flow gets all of it, until its session ends."""

    def __init__(self, knobs: Knobs, now: int) -> None:
        super().__init__(knobs, now)
        self.pins: dict[int, Member] = {}

    def holder(self, message: Message) -> Member | None:
        holder = super().holder(message)
        if holder is not None:
            self.pins[message.own_flow] = holder
        pinned = self.pins.get(message.own_flow)
        return pinned if pinned is not None and not pinned.over else None


GROUPS: Final[list[type[Group]]] = [
    AlwaysTheFirst, KeepsWhatIsBack, KeepsWhatIsOld, DropsUnpressed, HighestQos, StoresForNobody, DropsTheFirst,
    PacesForNobody, GroupTellsForEver, ForgetsPins, PinsForEver,
]  # fmt: skip
