"""What the probe has measured: deliveries between clients of cells that live, at times without kills and with some."""

import bisect
from typing import Final, TextIO

STARTED: Final = 1.0
"""Seconds of the beginning that do not count: connections are opened then."""
WINDOW: Final = 5.0
"""Seconds after a kill in which it may be noticed: another process starts, and reads its journal."""
CALM: Final = 8.0
"""Seconds after the last kill from which on nothing is left of it."""


class Latencies:
    """When each delivery came, from which cell to which, and how long it took."""

    def __init__(self) -> None:
        self._lines: list[tuple[float, int, int, float]] = []

    def read(self, file: TextIO) -> None:
        """Take the lines of the probe's file."""
        file.seek(0)
        for line in file:
            if line.endswith("\n"):  # the last one may be half a line
                at, one, other, took = line.split()
                self._lines.append((float(at), int(one), int(other), float(took)))

    def split(self, kills: list[tuple[float, int]]) -> tuple[list[float], list[float]]:
        """Seconds of deliveries long after any kill; of those soon after one, between cells that were not killed."""
        calm: list[float] = []
        beside: list[float] = []
        times = [at for at, _ in kills]
        began = self._lines[0][0] + STARTED if self._lines else 0.0
        for came, one, other, took in self._lines:
            published = came - took
            last = bisect.bisect_right(times, published) - 1
            age = published - times[last] if last >= 0 else float("inf")
            if age > CALM and came >= began:
                calm.append(took)
            elif age <= WINDOW and kills[last][1] not in (one, other):
                beside.append(took)
        return calm, beside

    def told(self, kills: list[tuple[float, int]]) -> list[str]:
        """The percentiles of both, and their ratio."""
        calm, beside = self.split(kills)
        if not calm or not beside:
            return ["no deliveries to compare"]
        told = []
        for share in (0.5, 0.99, 0.999):
            before, after = percentile(calm, share), percentile(beside, share)
            ratio = after / before
            told.append(
                f"p{share * 100:g}: {1000 * before:.2f} ms without kills ({len(calm)}), between cells that were not "
                f"killed {1000 * after:.2f} ms ({len(beside)}): {ratio:.2f} times"
            )
        return told


def percentile(found: list[float], share: float) -> float:
    """The one that this share is below."""
    return sorted(found)[min(int(share * len(found)), len(found) - 1)]
