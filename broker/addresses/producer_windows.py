"""Who has PUBLISHes waiting, and how much of its producer window they take up (FC-25)."""

from typing import TYPE_CHECKING, Final, cast, final

from broker.addresses.full_address import Parked
from broker.connection.backpressure import PARKED, end_reason, stop_reading
from broker.runtime.clock import SECOND
from broker.runtime.timers import Timer
from protocol.publish import Publish
from session.address import BLOCK, Address
from session.outbound import Outbound
from session.session import Session

if TYPE_CHECKING:
    from broker.broker import Broker
    from broker.connection.connection import Connection

LOOK: Final = SECOND
"""Microseconds after which it is looked at again whether a connection that is not read should be after all."""


@final
class Producer:
    """A session with PUBLISHes that wait."""

    def __init__(self) -> None:
        self.parked: dict[Parked, None] = {}
        self.bytes = 0
        self.unread: Connection | None = None
        """The connection that is not read because of them; it may have been closed since."""
        self.awaited_at = 0
        """When it was last found that others wait for what it holds itself: once in a chunk is enough."""


@final
class Producers:
    """The sessions with PUBLISHes that wait."""

    def __init__(self, broker: "Broker", window: int) -> None:
        self.window = window
        """Bytes that one session may have waiting; past that it is not read."""
        self._broker = broker
        self._producers: dict[Session, Producer] = {}
        self._unread: dict[Session, Producer] = {}
        self._timer: UnreadTimer | None = None

    def used_up(self, session: Session) -> bool:
        """Whether its window is used up: then it is not read, or only because it would be locked up otherwise."""
        producer = self._producers.get(session)
        return producer is not None and producer.bytes >= self.window

    def parked(self, session: Session) -> list[Parked]:
        """What waits of a session, in the order in which it came."""
        producer = self._producers.get(session)
        return [] if producer is None else list(producer.parked)

    def add(self, parked: Parked) -> None:
        """A PUBLISH waits."""
        producer = self._producers.get(parked.session)
        if producer is None:
            producer = self._producers[parked.session] = Producer()
        producer.parked[parked] = None
        producer.bytes += parked.weight

    def remove(self, parked: Parked) -> None:
        """It waits no longer: its connection is read again if there is room in its window."""
        session = parked.session
        producer = self._producers[session]
        del producer.parked[parked]
        producer.bytes -= parked.weight
        if producer.unread is not None and producer.bytes < self.window:
            self._read(session, producer)
        if not producer.parked:
            del self._producers[session]

    # -- reading

    def limit(self, connection: "Connection", session: Session, now: int) -> None:
        """Read `session`'s connection no further if its window is used up, unless it would be locked up then."""
        producer = self._producers.get(session)
        if producer is None or producer.bytes < self.window or connection.closing:
            return
        if producer.awaited_at == now or is_awaited(session.outbound):
            producer.awaited_at = now
            return
        producer.unread = connection
        self._unread[session] = producer
        stop_reading(connection, PARKED, now)
        if self._timer is None:
            self._timer = UnreadTimer(self)
            self._broker.wheel.add(now + LOOK, self._timer)

    def look(self, now: int) -> None:
        """Two clients that feed each other's full addresses: it may show only now that one waits for the other."""
        for session, producer in list(self._unread.items()):
            if is_awaited(session.outbound):
                self._read(session, producer)
        if self._unread:
            self._timer = UnreadTimer(self)
            self._broker.wheel.add(now + LOOK, self._timer)
        else:
            self._timer = None

    def _read(self, session: Session, producer: Producer) -> None:
        connection = producer.unread
        producer.unread = None
        self._unread.pop(session, None)
        if connection is not None:
            end_reason(connection, PARKED)


def is_awaited(outbound: Outbound) -> bool:
    """Whether the session holds deliveries of an address in which others wait for room: they wait for this client."""
    if any(_is_in_the_way(inflight.publish) for inflight in outbound.window.entries.values()):
        return True
    if outbound.mqueue is not None and any(_is_in_the_way(publish) for publish in outbound.mqueue):
        return True
    return any(_is_in_the_way(publish) for publish in outbound.in_mailbox())


def _is_in_the_way(publish: Publish) -> bool:
    if publish.address is None:
        return False
    address = cast("Address", publish.address)
    return address.waiting > 0 and address.rule.full_policy == BLOCK


@final
class UnreadTimer(Timer):
    """Has it looked at whether somebody waits for who is not read."""

    def __init__(self, producers: Producers) -> None:
        self.producers = producers

    def due(self, now: int) -> None:
        """Look, and come back while there is somebody."""
        self.producers.look(now)
