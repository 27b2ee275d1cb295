"""Restores sessions and groups from the journal: their deliveries, windows and packet ids (FC-27)."""

from collections.abc import Callable
from typing import final

from broker.storage.evicted import release_address
from broker.storage.index import Entry, Index
from broker.storage.kept_group import KeptGroup
from broker.storage.kept_queue import KeptQueue
from broker.storage.kept_session import KeptSession
from broker.storage.lane_rule import LaneRule
from broker.storage.saved import SavedSession
from broker.storage.saved_deliveries import SavedDeliveries
from session.address import Address
from session.session import Session
from session.shared_queue import SharedQueue
from session.window import Restored


def begin(kept: KeptQueue, saved: SavedSession) -> None:
    """Continue in the journal where the last process has ended."""
    assert saved.begins_in is not None  # `Saved.finish` has removed all others
    kept.begin_in(saved.begins_in)
    kept.count_state(saved.state_bytes())
    kept.deliveries.first_delivery = saved.first_delivery
    kept.deliveries.next_delivery = saved.next_delivery


@final
class Restorer:
    """Restores what new sessions and groups held before. Its methods raise DamagedError and StorageError."""

    def __init__(self, address: Callable[[bytes], Address | None], lanes: LaneRule, now: int) -> None:
        """`address`: that of a topic, None = it has no limit (FC-24); `lanes`: in which a delivery waits."""
        self._address = address
        self._lanes = lanes
        self._now = now

    def session(self, session: Session, kept: KeptSession, saved: SavedSession) -> list[tuple[Restored, int]]:
        """Restore a session.

        Returns the deliveries of its window that it has pulled, and the number of the group of each.
        """
        begin(kept, saved)
        self._deliveries(kept, saved)
        kept.restore_state(saved)
        entries: list[tuple[Entry, Index]] = []
        for number in saved.inflight:
            if saved.deliveries.holds(number):
                index = kept.evicted.index(self._lane(saved.deliveries, number))
                entry = index.find(number)
                assert entry is not None
                entries.append((entry, index))
        window: list[Restored] = []
        pulled: list[tuple[Restored, int]] = []
        for (entry, _), (publish, group) in zip(entries, kept.read_window(entries), strict=True):
            number = entry.delivery
            restored = Restored(publish, saved.inflight[number], number in saved.received)
            window.append(restored)
            if group:
                pulled.append((restored, group))
        session.restore(kept, window, list(saved.remembered), self._now)
        session.keep(kept, kept)
        for entry, _ in entries:
            release_address(entry)  # the window holds them
        return pulled

    def group(self, queue: SharedQueue, kept: KeptGroup, saved: SavedSession) -> None:
        """Restore the queue of a group; `begin` comes first."""
        self._deliveries(kept, saved)
        queue.restore(kept)

    def former(self, kept: KeptQueue, saved: SavedSession) -> None:
        """Restore what was dropped with a session or group and is still to be told (FC-35)."""
        begin(kept, saved)
        self._deliveries(kept, saved)

    def _deliveries(self, kept: KeptQueue, saved: SavedSession) -> None:
        """All of them are on disk only so far: they count for their addresses, and wait by their weights."""
        deliveries = saved.deliveries
        if not deliveries.has_lanes:
            index = deliveries.index(self._now)
            kept.evicted.restore(index)
            frames = kept.journal.frames
            for frame, size in index.sizes():
                frames[frame].add_evicted(size)
            return
        conflation = self._lanes.conflation
        waiting: dict[bytes, tuple[Entry, int]] = {}
        for entry in deliveries.entries(self._now):
            topic = deliveries.topic_of(entry.delivery)
            address = self._address(topic) if topic else None
            lane = self._lane(deliveries, entry.delivery)
            if address is not None:
                entry = entry._replace(address=address, cost=deliveries.cost_of(entry.delivery))
            kept.add_evicted(entry, lane)
            if conflation is not None and entry.delivery not in saved.inflight and conflation.matches(topic):
                if topic in waiting:  # FC-37: a crash came before it was on disk that this one is gone
                    older, of_older = waiting[topic]
                    kept.drop_evicted(older, kept.evicted.index(of_older))
                waiting[topic] = entry, lane
        kept.topics = {entry.delivery: topic for topic, (entry, _) in waiting.items()}

    def _lane(self, deliveries: SavedDeliveries, number: int) -> int:
        """The number of the lane in which a delivery waits."""
        return self._lanes.number(deliveries.topic_of(number), deliveries.flow_of(number))
