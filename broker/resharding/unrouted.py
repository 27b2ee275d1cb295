"""What waits in links, and in pages of addresses: it goes to the clients that it was for (CL-3, FC-26).

A link from cell A to cell B has what the clients of B still have to get. B may have stored what A has to send again. At
QoS 2 that is known: B has its packet id, or A knows that PUBREC has come. At QoS 1 it comes twice, as after a restart.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple, final

from broker.resharding.moves import Moves
from broker.resharding.old_journal import OldJournal, digest
from broker.resharding.routes import Routes
from broker.storage.errors import StorageError
from broker.storage.saved import SavedSession
from broker.storage.saved_message import SavedMessage, Target

QOS_2: Final = 2


class Routed(NamedTuple):
    """A message, and its deliveries by the cells that they are for."""

    message: SavedMessage
    targets: dict[int, list[Target]]


@final
class Unrouted:
    """All that waits for other queues than the one that it is in."""

    def __init__(self, journals: list[OldJournal], moves: Moves, merge: bool) -> None:
        """Raises StorageError if a cell has no journal, and had clients."""
        self._journals = journals
        self._moves = moves
        self._merge = merge
        self.told: dict[bytes, dict[int, bytes]] = {}
        """By topic and journal: the last retained message of which not all others know."""
        self.paged: dict[bytes, SavedMessage] = {}
        """By topic: the last message with RETAIN that has waited in pages."""
        there = {each.number for each in journals}
        for journal in journals:
            for number, link in journal.links.items():
                if number not in there and link.subscriptions:
                    raise StorageError(
                        f"{journal.directory} is that of a cell beside cell {number}, whose journal is not there: "
                        "restore it, or its sessions are lost"
                    )

    def routed(self) -> Iterator[Routed]:
        """All of it, in the order of each queue. Raises StorageError."""
        for receiver in self._journals:
            routes: Routes | None = None
            for sender in self._journals:
                link = sender.links.get(receiver.number)
                if link is None or sender is receiver or not link.deliveries.length:
                    continue
                routes = routes or self._routes([receiver])
                yield from self._of_link(sender, receiver, link, routes)
        yield from self._of_pages()

    def _routes(self, journals: list[OldJournal]) -> Routes:
        routes = Routes(self._merge)
        for journal in journals:
            for session in journal.saved.sessions.values():
                moved = self._moves.of(journal, session.number)
                if moved is not None and not session.group and not session.is_former():
                    routes.add_session(moved[0])
        for queue in self._moves.groups_of(journals):
            routes.add_group(queue)
        return routes

    def _of_link(
        self, sender: OldJournal, receiver: OldJournal, link: SavedSession, routes: Routes
    ) -> Iterator[Routed]:
        other = receiver.links.get(sender.number)
        remembered = {} if other is None else other.remembered
        for number, message in sender.waiting(link):
            target = _target(message, link.number, number)
            packet_id = link.inflight.get(number, 0)
            if target.qos == QOS_2 and packet_id and (number in link.received or packet_id in remembered):
                continue
            if target.retain:
                self.told.setdefault(message.topic, {})[sender.number] = digest(message)
            yield Routed(message, routes.targets(message, target))

    def _of_pages(self) -> Iterator[Routed]:
        routes: Routes | None = None
        for journal in self._journals:
            for pages in journal.saved.sessions.values():
                if not pages.topic:
                    continue
                routes = routes or self._routes(self._journals)
                for number, message in journal.waiting(pages):
                    if message.retain:
                        self.paged[message.topic] = message
                    target = _target(message, pages.number, number)._replace(retain=message.retain)
                    yield Routed(message, routes.targets(message, target, message.publisher))


def _target(message: SavedMessage, queue: int, delivery: int) -> Target:
    return next(each for each in message.targets if (each.session, each.delivery) == (queue, delivery))
