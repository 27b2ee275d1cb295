"""Topics that were cached before their receivers may have changed: they are forgotten a few at a time.

There may be so many that to forget them at once would hold the event loop for 10 ms.
"""

from typing import Final, final

from broker.routing.filter_tree import Subscribers
from broker.routing.receivers import Receivers
from broker.runtime.timers import TICK, Timer, Wheel

EACH_TICK: Final = 500
"""Topics that are forgotten at each tick of the timing wheel: some 100 microseconds."""
EACH_CACHED: Final = 2
"""Topics that are forgotten for each one that is cached. So never more are stale than the cache may hold."""


@final
class StaleTopics(Timer):
    """They refer to sessions that may have ended, so they must not stay: what messages do not forget, a timer does."""

    def __init__(self, topics: dict[bytes, Subscribers], wheel: Wheel | None) -> None:
        """`topics`: those of the router. Without a wheel only new cached topics forget them."""
        self._topics = topics
        self._wheel = wheel
        self._caches: list[dict[bytes, Receivers]] = []

    def __len__(self) -> int:
        return sum([len(cache) for cache in self._caches])

    def add(self, cache: dict[bytes, Receivers]) -> None:
        """All topics of this cache are stale from now on."""
        if not cache:
            return
        self._caches.append(cache)
        if self._wheel is not None and len(self._caches) == 1:
            self._wheel.add(self._wheel.now + TICK, self)

    def forget(self, most: int) -> None:
        """Forget up to `most` topics; one that has been cached again stays."""
        while most > 0 and self._caches:
            cache = self._caches[-1]
            for _ in range(min(most, len(cache))):
                topic, receivers = cache.popitem()
                subscribers = self._topics.get(topic)
                if subscribers is not None and subscribers.receivers is receivers:
                    subscribers.receivers = None
                    if subscribers.empty():
                        del self._topics[topic]
                most -= 1
            if not cache:
                self._caches.pop()

    # -- as a timer

    def wanted(self) -> bool:
        """Whether there are any."""
        return bool(self._caches)

    def due(self, now: int) -> None:
        """Forget some."""
        self.forget(EACH_TICK)
        if self._caches and self._wheel is not None:
            self._wheel.add(now + TICK, self)
