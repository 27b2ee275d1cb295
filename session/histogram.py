"""Histograms with eight buckets to an octave, which are merged by adding bucket to bucket.

Values below 16 have a bucket each. Above, each octave [2^n, 2^(n+1)) is cut into eight buckets of the same width: a
bucket is at most an eighth of its lowest value wide, and a percentile is known to 6 %.
"""

from typing import Final, final

from mypy_extensions import i64, mypyc_attr

BUCKETS: Final = 256
COUNT_SHIFT: Final = 8
"""An exported entry is `count << COUNT_SHIFT | bucket`."""
_LAST: Final = 15 << 30  # the lowest value of the last bucket, microseconds: four and a half hours
_NO_BOUND: Final = 1 << 62


def bucket_of(value: int) -> int:
    """The bucket that counts `value`; the last one also counts all larger values, the first all below 0."""
    if value < 16:
        return max(value, 0)
    if value >= _LAST:
        return BUCKETS - 1
    octave = value.bit_length() - 4
    return (octave << 3) + (value >> octave)


@mypyc_attr(acyclic=True)
@final
class Histogram:
    """Counts of values by bucket, of those buckets that have any.

    Consecutive values are often in the same bucket, so a run of them is counted in one integer, which is added to the
    bucket when the run ends.
    """

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self._low: i64 = 0
        self._high: i64 = 0
        """The run counts values from _low to below _high."""
        self._bucket: i64 = 0
        self._run: i64 = 0

    def add(self, value: i64) -> None:
        """Count one value, 0 or more."""
        if self._low <= value < self._high:
            self._run += 1
        else:
            self._start_run(value)

    def counts(self) -> dict[int, int]:
        """The counts so far by bucket, in no order; 0 where a bucket is missing."""
        self._end_run()
        return self._counts

    def entries(self) -> list[int]:
        """The counts so far as they are exported, by bucket in ascending order."""
        counts = self.counts()
        return [counts[bucket] << COUNT_SHIFT | bucket for bucket in sorted(counts)]

    def _start_run(self, value: i64) -> None:
        """The same bucket as `bucket_of`; its octave is found by halves, in C's integers."""
        self._end_run()
        self._run = 1
        if value < 16:
            self._bucket = self._low = value if value > 0 else 0
            self._high = self._low + 1
        elif value >= _LAST:
            self._bucket, self._low, self._high = BUCKETS - 1, _LAST, _NO_BOUND
        else:
            octave: i64 = 1
            rest: i64 = value >> 4
            if rest >= 1 << 16:
                octave, rest = octave + 16, rest >> 16
            if rest >= 1 << 8:
                octave, rest = octave + 8, rest >> 8
            if rest >= 1 << 4:
                octave, rest = octave + 4, rest >> 4
            if rest >= 1 << 2:
                octave, rest = octave + 2, rest >> 2
            if rest >= 1 << 1:
                octave += 1
            step: i64 = value >> octave
            self._bucket = (octave << 3) + step
            self._low = step << octave
            self._high = self._low + (1 << octave)

    def _end_run(self) -> None:
        if self._run:
            counts = self._counts
            bucket: int = int(self._bucket)
            counts[bucket] = counts.get(bucket, 0) + int(self._run)
            self._run = 0
