"""FC-12: the weights of topics in the mqueue."""

from typing import Final, final

from session.most_specific import NONE, MostSpecific

UNLISTED: Final = 1
"""The weight of topics that no filter matches, the lowest."""


@final
class Priorities:
    """Topic filters and their weights, 1 to 255; the most specific filter that matches a topic applies."""

    def __init__(self, rules: list[tuple[str, int]]) -> None:
        self._filters = MostSpecific([topic_filter for topic_filter, _ in rules])
        self._weights = [weight for _, weight in rules]

    def weight(self, topic: bytes) -> int:
        """The weight of a topic."""
        number = self._filters.find(topic)
        return UNLISTED if number == NONE else self._weights[number]
