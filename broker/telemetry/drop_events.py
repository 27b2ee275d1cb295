"""Tells of each delivery that is dropped, by messages of the broker's own (FC-35)."""

import asyncio
from collections import deque
from contextvars import Context
from typing import TYPE_CHECKING, Final, NamedTuple, final

from broker.runtime.clock import monotonic_us
from broker.runtime.timers import Timer
from broker.storage.errors import StorageError
from broker.storage.reading_back import COST, Unread, read_unread
from broker.storage.records import DamagedError
from broker.telemetry.drop_message import Loser, Lost, event
from broker.telemetry.wall import WallClock
from session.drops import DropLog
from session.flows import EVENT
from session.rate import Rate

if TYPE_CHECKING:
    from broker.routing.messages import Messages
    from broker.runtime.timers import Wheel
    from broker.storage.journal import Journal
    from config.drop_events import DropEvents as Settings
    from protocol.publish import Publish

_CONTEXT: Final = Context()

MOST_LOSERS: Final = 1_000
"""Clients and groups whose drops are summed up by themselves; those of all others are summed up together."""
MOST_WAITING: Final = 64 * 1024 * 1024
"""Bytes of drops that are to be told singly. What exceeds them is summed up, at any rate."""
AT_ONCE: Final = 64
"""Events in one turn of the loop, or an eighth of those that wait, if that is more: so these are bounded by what one
turn drops, however long it goes on. A commit takes all."""
MOST_PINNED: Final = 32
"""Drops that are put off and still to be read: until then the journal keeps their frames."""
READ_AT_ONCE: Final = 200
READ_BYTES: Final = 256 * 1024
"""Of what is read back to be told of: deliveries, and payload bytes from the second one on."""


class Told(NamedTuple):
    """What the next event is to say."""

    loser: Loser
    lost: Lost | None
    summed: dict[str, int]
    cost: int


@final
class Losses(DropLog):
    """What one client or group loses. The first drop that cannot be told at once is told next, with a sum of others."""

    def __init__(self, events: "DropEvents", loser: Loser) -> None:
        self.loser = loser
        self.first: Lost | None = None
        self.summed: dict[str, int] | None = None
        """By reason, besides the first; None = nothing waits to be told."""
        self._events = events

    def tell(self, reason: str, publish: "Publish") -> None:
        """A delivery is lost."""
        if publish.flow != EVENT:
            self._events.note(self, Lost(reason, publish))


@final
class DropEvents(Timer):
    """Collects drops, and publishes the events in turns of the loop of their own."""

    def __init__(self, messages: "Messages", wheel: "Wheel", journal: "Journal | None", max_topic_levels: int) -> None:
        self._messages = messages
        self._wheel = wheel
        self._journal = journal
        self._levels = max_topic_levels
        self._clock = WallClock()
        self._settings: Settings | None = None
        self._rate: Rate | None = None
        self._told: deque[Told] = deque()
        self._unread: deque[Told] = deque()  # their first is to be read
        self._cost = 0  # of both, in bytes
        self._put_off: deque[Losses] = deque()  # in turn
        self._pinned = 0
        self._others = Losses(self, Loser(""))
        self._armed = False
        self._scheduled = False
        self._reading: asyncio.Task[None] | None = None

    def use(self, settings: "Settings | None") -> None:
        """Follow this configuration from now on. None: nobody is told, not even of what was dropped before."""
        self._settings = settings
        self._rate = Rate(settings.max_rate, monotonic_us()) if settings is not None and settings.max_rate else None
        if self._journal is not None:
            self._journal.tell_drops = None if settings is None else self._publish_all

    def of_client(self, client_id: str) -> DropLog | None:
        """Who is told of the drops of a session; None = nobody."""
        return None if self._settings is None else Losses(self, Loser(client_id))

    def of_group(self, name: str) -> DropLog | None:
        """The same of a group."""
        return None if self._settings is None else Losses(self, Loser(name, True))

    # -- while deliveries are dropped

    def note(self, losses: Losses, lost: Lost) -> None:
        """A delivery is lost: tell it as soon as possible, or put it off."""
        cost = _cost_of(lost)
        fits = self._cost + cost <= MOST_WAITING
        if fits and (self._rate is None or (not self._put_off and self._rate.take(monotonic_us()))):
            self._tell(Told(losses.loser, lost, {}, cost))
        else:
            self._put(losses, lost, fits)

    def _put(self, losses: Losses, lost: Lost, fits: bool) -> None:
        if losses.summed is None:
            if len(self._put_off) >= MOST_LOSERS:
                losses = self._others
            if losses.summed is None:
                losses.summed = {}
                self._put_off.append(losses)
                self._arm()
        unread = isinstance(lost.publish.holder, Unread)
        if losses.first is None and fits and losses is not self._others and (not unread or self._pinned < MOST_PINNED):
            losses.first = lost
            self._cost += _cost_of(lost)
            self._pinned += unread
            return
        losses.summed[lost.reason] = losses.summed.get(lost.reason, 0) + 1
        _forget(lost)

    def _tell(self, told: Told) -> None:
        self._cost += told.cost
        if told.lost is not None and isinstance(told.lost.publish.holder, Unread):
            self._unread.append(told)
            if self._reading is None:
                self._reading = asyncio.get_running_loop().create_task(self._read())
        else:
            self._told.append(told)
            self._schedule()

    # -- what was put off

    def _arm(self) -> None:
        if not self._armed:
            self._armed = True
            now = monotonic_us()
            self._wheel.add(now if self._rate is None else self._rate.next_at(now), self)

    def due(self, now: int) -> None:
        """Tell what was put off, one client after the other, as the rate allows."""
        self._armed = False
        while self._put_off and (self._rate is None or self._rate.take(now)):
            self._tell_next()
        if self._put_off:
            self._arm()

    def _tell_next(self) -> None:
        losses = self._put_off.popleft()
        lost, summed = losses.first, losses.summed
        losses.first, losses.summed = None, None
        cost = 0
        if lost is not None:
            cost = _cost_of(lost)
            self._cost -= cost
            self._pinned -= isinstance(lost.publish.holder, Unread)
        self._tell(Told(losses.loser, lost, summed or {}, cost))

    # -- publishing

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._publish_some, context=_CONTEXT)

    def _publish_some(self) -> None:
        self._scheduled = False
        told = self._told
        try:
            for _ in range(min(len(told), max(AT_ONCE, len(told) // 8))):
                self._publish(told.popleft())
        finally:
            if told:
                self._schedule()

    def _publish_all(self) -> None:
        """A commit begins: what it says to be done is told in it (FC-35)."""
        while self._told:
            self._publish(self._told.popleft())

    def _publish(self, told: Told) -> None:
        self._cost -= told.cost
        settings = self._settings
        if settings is None:
            return
        now = self._clock.read()
        made = event(settings, told.loser, told.lost, told.summed, self._clock.at(0), self._levels)
        if made.qos and self._journal is not None and not self._journal.commits.has_room():
            made.qos = 0  # FC-29: it is not written
        self._messages.publish_own(made, now)

    # -- reading back what was dropped on disk

    async def _read(self) -> None:
        journal = self._journal
        assert journal is not None  # else nothing is on disk
        try:
            while self._unread:
                some = self._next_unread()
                found = await read_unread(journal, [_unread(each) for each in some])
                for told, publish in zip(some, found, strict=True):
                    self._have_read(told, publish)
                await asyncio.sleep(0)
        except (StorageError, DamagedError) as error:
            journal.commits.fail(error)
        finally:
            self._reading = None

    def _next_unread(self) -> list[Told]:
        some: list[Told] = []
        size = 0
        while self._unread and len(some) < READ_AT_ONCE:
            size += _unread(self._unread[0]).entry.size
            if some and size > READ_BYTES:
                break
            some.append(self._unread.popleft())
        return some

    def _have_read(self, told: Told, publish: "Publish") -> None:
        assert told.lost is not None  # it is what was read
        self._cost -= told.cost
        if publish.flow != EVENT:
            lost = told.lost._replace(publish=publish)
            self._tell(told._replace(lost=lost, cost=_cost_of(lost)))
        elif told.summed:
            self._tell(told._replace(lost=None, cost=0))

    async def finish(self) -> None:
        """The broker stops: tell all at once."""
        while self._put_off:
            self._tell_next()
        while self._told or self._reading is not None:
            await (asyncio.sleep(0) if self._reading is None else asyncio.shield(self._reading))


def _unread(told: Told) -> Unread:
    assert told.lost is not None  # it is to be read
    holder = told.lost.publish.holder
    assert isinstance(holder, Unread)
    return holder


def _cost_of(lost: Lost) -> int:
    """Bytes that a drop takes in memory until it is told."""
    publish = lost.publish
    return COST + (0 if isinstance(publish.holder, Unread) else publish.size + len(publish.topic))


def _forget(lost: Lost) -> None:
    if isinstance(lost.publish.holder, Unread):
        lost.publish.holder.forget()
