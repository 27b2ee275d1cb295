"""FC-37: of some topics only the newest delivery waits in a queue.

In memory a place of the queue (an entry of a `Fifo`) says the topic only, and the delivery itself is found by it: so a
newer one takes the place of the older without a search. On disk the number of the older one is found by its topic.
"""

from typing import final

from mypy_extensions import i64

from protocol.publish import Publish
from session.most_specific import NONE, MostSpecific


@final
class Conflation:
    """The topic filters of a configuration."""

    def __init__(self, filters: list[str]) -> None:
        self._filters = MostSpecific(filters)

    def matches(self, topic: bytes) -> bool:
        """Whether only the newest delivery of a topic waits."""
        return self._filters.find(topic) != NONE


@final
class Slot:
    """The place of the only delivery of a topic that waits in a queue, and what is known of that delivery."""

    def __init__(self, lane: i64, number: i64, qos: i64, size: i64, received_at: i64) -> None:
        self.lane = lane
        """The number of the lane (`flows.lane_number`)."""
        self.publish: Publish | None = None
        """The delivery; None = it is on disk only (FC-30)."""
        self.number = number
        """Of the delivery in the journal, if it is on disk only."""
        self.qos = qos
        self.size = size
        self.received_at = received_at

    def describe(self, publish: Publish) -> None:
        """It has this delivery from now on."""
        self.qos = publish.qos
        self.size = publish.size
        self.received_at = publish.received_at


@final
class Newest:
    """The slots of one queue, all its lanes together: there are no more than topics that wait."""

    def __init__(self, conflation: Conflation) -> None:
        self._conflation = conflation
        self._by_topic: dict[bytes, Slot] = {}
        self._topics: dict[int, bytes] = {}  # of those that are on disk only, by number

    def older(self, publish: Publish) -> Slot | None:
        """The slot of the delivery of the same topic that waits already; None = there is none."""
        return self._by_topic.get(publish.topic)

    # -- in memory

    def enter(self, publish: Publish, lane: i64) -> Publish:
        """What stands in the queue of a lane for a delivery that joins it in memory. None of its topic waits."""
        if not self._conflation.matches(publish.topic):
            return publish
        slot = self._by_topic[publish.topic] = Slot(lane, 0, publish.qos, publish.size, publish.received_at)
        slot.publish = publish
        return Publish(publish.topic, b"")

    def at(self, place: Publish) -> Publish:
        """The delivery that waits in a place of the queue."""
        slot = self._by_topic.get(place.topic)
        return place if slot is None or slot.publish is None else slot.publish

    def leave(self, place: Publish) -> Publish:
        """The same; it has left the queue."""
        slot = self._by_topic.pop(place.topic, None)
        return place if slot is None or slot.publish is None else slot.publish

    # -- on disk only (FC-30)

    def enter_on_disk(self, topic: bytes, lane: i64, number: int, qos: i64, size: i64, received_at: i64) -> None:
        """A delivery has joined a lane, on disk only."""
        if self._conflation.matches(topic):
            self._by_topic[topic] = Slot(lane, number, qos, size, received_at)
            self._topics[number] = topic

    def replace_on_disk(self, slot: Slot, publish: Publish, number: int) -> None:
        """A delivery that is on disk only has taken the place of another such one."""
        self._topics.pop(slot.number, None)
        self._topics[number] = publish.topic
        slot.number = number
        slot.describe(publish)

    def leave_disk(self, number: int) -> None:
        """A delivery that was on disk only is gone."""
        topic = self._topics.pop(number, None)
        if topic is not None:
            del self._by_topic[topic]

    def read_back(self, publish: Publish) -> Publish:
        """What stands in the queue for a delivery that has been read back."""
        slot = self._by_topic.get(publish.topic)
        if slot is None:
            return publish
        self._topics.pop(slot.number, None)
        slot.publish = publish
        return Publish(publish.topic, b"")
