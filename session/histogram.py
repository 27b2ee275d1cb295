"""Histograms with powers of two as bounds: merged by adding them up, bucket by bucket."""

from typing import Final, final

from mypy_extensions import mypyc_attr

BUCKETS: Final = 32


def bucket_of(value: int) -> int:
    """The bucket that counts `value`: its bit length; the last bucket counts everything above as well."""
    if value <= 0:
        return 0
    return min(value.bit_length(), BUCKETS - 1)


@mypyc_attr(acyclic=True)
@final
class Histogram:
    """Counts of values by bit length.

    Deliveries come in batches that share one start and one end, so a run of equal times is counted in one plain integer
    and reaches its bucket when the run ends.
    """

    def __init__(self) -> None:
        self._buckets = [0] * BUCKETS
        self._start = -1
        self._end = -1
        self._run = 0

    def add(self, value: int) -> None:
        """Count one value."""
        self._buckets[bucket_of(value)] += 1

    def add_elapsed(self, start: int, end: int) -> None:
        """Count the time from `start` to `end`, both in microseconds."""
        if start == self._start and end == self._end:
            self._run += 1
            return
        self._end_run()
        self._start = start
        self._end = end
        self._run = 1

    def counts(self) -> list[int]:
        """The 32 counts so far."""
        self._end_run()
        return self._buckets

    def _end_run(self) -> None:
        if self._run:
            self._buckets[bucket_of(self._end - self._start)] += self._run
            self._run = 0
