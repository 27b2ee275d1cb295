"""The receivers of the topics that have many messages, of which the oldest are evicted."""

from itertools import islice
from typing import Final, final

from broker.routing.filter_tree import Subscribers
from broker.routing.receivers import Receivers
from broker.routing.stale_topics import EACH_CACHED, StaleTopics
from broker.runtime.timers import Wheel

CACHED_TOPICS: Final = 65_536
"""Topics whose receivers are cached; past that the oldest are evicted."""
CACHED_WEIGHT: Final = 1_000_000
"""The limit of the cache in receivers: wildcards and long topics need memory."""
_RECEIVER_BYTES: Final = 64
"""Bytes of a topic name that count as one receiver."""


@final
class TopicCache:
    """The cache of a router."""

    def __init__(self, topics: dict[bytes, Subscribers], most: int, most_weight: int, wheel: Wheel | None) -> None:
        """`topics`: those of the router, which refer to the receivers that are cached."""
        self.receivers: dict[bytes, Receivers] = {}
        """By topic, oldest first."""
        self.stale = StaleTopics(topics, wheel)
        self._topics = topics
        self._most = most
        self._most_weight = most_weight
        self._weight = 0

    def remember(self, topic: bytes, receivers: Receivers) -> None:
        """Cache the receivers of a topic, for which others may have to go."""
        cache = self.receivers
        self.stale.forget(EACH_CACHED)
        weight = _weight(topic, receivers)
        while cache and (len(cache) >= self._most or self._weight + weight > self._most_weight):
            # Evict many at once: the search for a dictionary's first key passes all keys deleted before it.
            for oldest in list(islice(cache, len(cache) // 16 + 1)):
                self.forget(oldest)
        cache[topic] = receivers
        self._weight += weight
        subscribers = self._topics.get(topic)
        if subscribers is None:
            subscribers = self._topics[topic] = Subscribers()
        subscribers.receivers = receivers

    def forget(self, topic: bytes) -> None:
        """Find the receivers of a topic anew with its next message."""
        receivers = self.receivers.pop(topic, None)
        if receivers is not None:
            self._weight -= _weight(topic, receivers)
        subscribers = self._topics.get(topic)
        if subscribers is None:
            return
        subscribers.alone_in = 0
        subscribers.receivers = None
        if subscribers.empty():
            del self._topics[topic]

    def forget_all(self) -> None:
        """The same of all topics."""
        self.stale.add(self.receivers)
        self.receivers = {}
        self._weight = 0


def _weight(topic: bytes, receivers: Receivers) -> int:
    """The weight of a cached topic, in receivers."""
    return 1 + len(receivers) + len(topic) // _RECEIVER_BYTES
