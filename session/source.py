"""What a session pulls deliveries from besides its own mqueue: shared queues (FC-13) and retained messages."""

from collections import OrderedDict
from typing import Final, final

from mypy_extensions import mypyc_attr

from protocol.publish import Publish
from session.journal import QueueJournal
from session.pacing import Pacer

EMPTY: Final = 0
"""The source is empty. It calls `Consumer.pull_later` when it has more."""
DELIVERED: Final = 1
"""It has delivered what the session could send, and has more."""
BLOCKED: Final = 2
"""It has deliveries, but the session could send none of them."""
YIELD: Final = 3
"""It could continue at once, but has done enough for one turn."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Source:
    """A shared queue, or the retained messages of new subscriptions."""

    journal: QueueJournal | None = None
    """FC-27; None = what waits in it does not survive the process."""
    listens = False
    """FC-33: whether `completed` is called for what it has handed over."""

    def pull(self, consumer: "Consumer", now: int) -> int:
        """Deliver what the session can send in this pass. Returns EMPTY, DELIVERED, BLOCKED or YIELD."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def completed(self, publish: Publish, packet_id: int, now: int) -> None:
        """A session has completed a delivery, or given it up."""

    def take_back(self, deliveries: list[Publish], lost: list[Publish], now: int) -> bool:
        """A session that ends returns QoS 1 deliveries; False if the source does not take them.

        `lost`: if the source listens, the QoS 2 deliveries that end with the session.
        """
        return False


@final
class PendingSources:
    """Sources that have, or may have, deliveries that the session could not send at once."""

    def __init__(self) -> None:
        self.sources: OrderedDict[Source, None] = OrderedDict()
        """In their order. A session may be in thousands of groups: none of them is searched for."""

    def pull(self, consumer: "Consumer", now: int) -> bool:
        """Pull what can be sent, from one source after the other; a source that delivered goes last.

        Returns whether more can be sent once the outbox is written.
        """
        sources = self.sources
        blocked: list[Source] = []
        more = False
        for _ in range(len(sources)):
            if not consumer.has_room() or not consumer.is_open():
                break
            source, _none = sources.popitem(last=False)
            result = source.pull(consumer, now)
            if result == BLOCKED:
                blocked.append(source)
            elif result != EMPTY:
                sources[source] = None
                more = more or result == YIELD
        for source in reversed(blocked):
            sources[source] = None
            sources.move_to_end(source, last=False)
        return more or (len(sources) > 0 and not consumer.has_room())


class Consumer:
    """A session as sources and shared queues see it."""

    def pull_later(self, source: Source) -> None:
        """A source has, or may have, deliveries: pull from it when the session can send."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def forget(self, source: Source) -> None:
        """Do not pull from a source any more that `pull_later` has added."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def is_online(self) -> bool:
        """Whether its client is connected."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def is_open(self) -> bool:
        """Whether window and send path allow a delivery of any QoS, and the mqueue is empty."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def has_room(self) -> bool:
        """Whether the pass may write more of what has waited."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def has_spare_room(self) -> bool:
        """Whether this pass has room for more than the session's own deliveries."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def can_send(self, publish: Publish, now: int) -> bool:
        """Whether a source's delivery can be sent at once; if not, it stays in the source."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def send_pulled(self, publish: Publish, source: Source | None, now: int) -> int:
        """Send a delivery. `source` may get it back if the session ends before it is acknowledged.

        Returns its packet id; 0 = the window does not have it: it is QoS 0, has expired or is too large.
        """
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def wake(self) -> None:
        """Have the host run passes."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def pace(self, pacing: Pacer, now: int) -> bool:
        """FC-16: pace its client as a publisher, for one more queue; False if that is not possible."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC
