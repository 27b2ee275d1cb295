"""Histograms with powers of two as bounds, which are merged by adding bucket to bucket."""

from typing import Final, final

from mypy_extensions import mypyc_attr

BUCKETS: Final = 32
_NO_BOUND: Final = 1 << 62


def bucket_of(value: int) -> int:
    """The bucket that counts `value`: its bit length; the last bucket also counts all larger values."""
    if value <= 0:
        return 0
    return min(value.bit_length(), BUCKETS - 1)


@mypyc_attr(acyclic=True)
@final
class Histogram:
    """Counts of values by bit length.

    Consecutive values are mostly in the same bucket, so a run of them is counted in one integer, which is added to the
    bucket when the run ends.
    """

    def __init__(self) -> None:
        self._buckets = [0] * BUCKETS
        self._low = 0
        self._high = 0
        """The run counts values from _low to below _high."""
        self._run = 0

    def add(self, value: int) -> None:
        """Count one value, 0 or more."""
        if self._low <= value < self._high:
            self._run += 1
        else:
            self._start_run(value)

    def counts(self) -> list[int]:
        """The 32 counts so far."""
        self._end_run()
        return self._buckets

    def _start_run(self, value: int) -> None:
        self._end_run()
        bucket = bucket_of(value)
        self._low = 1 << bucket - 1 if bucket else 0
        self._high = 1 << bucket if bucket < BUCKETS - 1 else _NO_BOUND
        self._run = 1

    def _end_run(self) -> None:
        if self._run:
            self._buckets[bucket_of(self._low)] += self._run
            self._run = 0
