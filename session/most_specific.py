"""Finds the most specific of several topic filters for a topic: that one applies (FC-12, FC-24)."""

from typing import Final, final

from protocol.topics import matches

CACHED_TOPICS: Final = 65_536
"""Topics whose result is cached; above that the cache is cleared."""
CACHED_BYTES: Final = 4 * 1024 * 1024
"""The same limit for the bytes of their names."""
NONE: Final = -1
"""No filter matches."""


@final
class MostSpecific:
    """Topic filters by number, of which the most specific one that matches a topic applies.

    Level by level from the left, a name is more specific than `+`, and `+` than `#`.
    """

    def __init__(self, filters: list[str]) -> None:
        ranked = sorted(range(len(filters)), key=lambda number: _rank(filters[number]))
        self._filters = [(filters[number], number) for number in ranked]
        self._found: dict[bytes, int] = {}
        self._found_bytes = 0

    def find(self, topic: bytes) -> int:
        """The number of the filter that applies to a valid topic name, NONE if none does."""
        number = self._found.get(topic)
        if number is None:
            number = self._look_up(topic.decode())
            self._remember(topic, number)
        return number

    def _remember(self, topic: bytes, number: int) -> None:
        if len(self._found) >= CACHED_TOPICS or self._found_bytes + len(topic) > CACHED_BYTES:
            self._found.clear()
            self._found_bytes = 0
        self._found[topic] = number
        self._found_bytes += len(topic)

    def _look_up(self, topic: str) -> int:
        for topic_filter, number in self._filters:
            if matches(topic_filter, topic):
                return number
        return NONE


def _rank(topic_filter: str) -> list[int]:
    """Sort key, most specific first: level by level 0 for a name, 1 for `+`, 2 for `#`; `a` comes before `a/#`."""
    return [{"+": 1, "#": 2}.get(level, 0) for level in topic_filter.split("/")]
