"""What a total grows by in a minute, averaged over the last 1, 5 and 15 minutes, as load averages are."""

from math import exp
from typing import Final

MINUTES: Final = (1, 5, 15)


class LoadAverages:
    """The averages of one total. What is longer ago counts less: e times less for each of the average's minutes."""

    def __init__(self) -> None:
        self.values = [0.0] * len(MINUTES)
        """Growth in a minute, in the order of MINUTES."""
        self._total = 0

    def update(self, total: int, seconds: float) -> None:
        """The total has come to `total` within `seconds`, which are more than none, since the last update."""
        rate = (total - self._total) * 60 / seconds
        self._total = total
        for number, minutes in enumerate(MINUTES):
            weight = 1 - exp(-seconds / (60 * minutes))
            self.values[number] += (rate - self.values[number]) * weight
