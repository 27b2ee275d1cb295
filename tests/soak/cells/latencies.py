"""What the probe has measured: deliveries between clients of cells that live, without kills and with some."""

import bisect
from collections.abc import Iterator
from typing import Final, TextIO

STARTED: Final = 1.0
"""Seconds of the beginning that do not count: connections are opened then."""


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
        """Seconds before the first kill, and after it between cells that were not the last to be killed."""
        lines = self._lines
        first = kills[0][0] if kills else float("inf")
        began = lines[0][0] + STARTED if lines else 0.0
        calm = [took for at, _, _, took in lines if began <= at < first]
        return calm, list(_beside(lines, kills))

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


def _beside(lines: list[tuple[float, int, int, float]], kills: list[tuple[float, int]]) -> Iterator[float]:
    times = [at for at, _ in kills]
    for at, one, other, took in lines:
        last = bisect.bisect_right(times, at - took) - 1  # by when it was published
        if last >= 0 and kills[last][1] not in (one, other):
            yield took
