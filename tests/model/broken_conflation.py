"""Models that break FC-37 in one way each."""

from dataclasses import replace

from tests.model.books import Books
from tests.model.group import Group
from tests.model.knobs import Knobs
from tests.model.message import Message
from tests.model.mqueue import MQueue
from tests.model.session import Model
from tests.model.waiting import older_in


class ToTheEnd(MQueue):
    """FC-37: what replaces another delivery joins the end."""

    def join(self, arrival: Message, books: Books, last: bool = False) -> None:
        older = older_in(self, arrival)
        if older is not None:
            books.supersede(older.qos)
            self.remove(older)
        super().join(arrival, books, last)


class AllWait(MQueue):
    """FC-37: nothing is replaced."""

    def __init__(self, knobs: Knobs) -> None:
        super().__init__(replace(knobs, conflate=()))


class NeedsRoom(MQueue):
    """FC-37: what it replaces counts for the limits."""

    def fits(self, arrival: Message, times: int = 1) -> bool:
        beside = AllWait(self.knobs)
        beside.waiting = self.waiting
        return beside.fits(arrival, times)


def queued_in(mqueue: type[MQueue]) -> type[Model]:
    """A model with another mqueue."""

    class Queued(Model):
        def __init__(self, knobs: Knobs, now: int) -> None:
            super().__init__(knobs, now)
            self.mqueue = mqueue(knobs)

    Queued.__name__ = mqueue.__name__
    return Queued


class OvertakesItself(Model):
    """FC-37: QoS 1 and 2 go ahead of what waits of their topic."""

    def _closed(self, message: Message) -> str:
        return "" if super()._closed(message) == "backlog" and message.qos else super()._closed(message)


class KeepsWhatIsOld(Group):
    """FC-37, FC-13: what comes back waits though a newer one of its topic does."""

    def take_back(self, messages: list[Message]) -> int:
        self.mqueue.knobs = replace(self.knobs, conflate=())
        back = super().take_back(messages)
        self.mqueue.knobs = self.knobs
        return back
