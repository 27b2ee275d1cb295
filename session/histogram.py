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


@mypyc_attr(acyclic=True)
@final
class Histogram:
    """Counts of values by bucket, from the lowest to the highest bucket that has any.

    Consecutive values are often in the same bucket, so a run of them is counted in one integer, which is added to the
    bucket when the run ends. For each message `Counters` does what `add` does, without the call.
    """

    def __init__(self) -> None:
        self._counts: list[int] = []
        self._first: i64 = 0
        """The bucket of _counts[0]."""
        self.low: i64 = 0
        self.high: i64 = 0
        """The run counts values from `low` to below `high`."""
        self.run: i64 = 0
        self._bucket: i64 = 0

    def add(self, value: i64) -> None:
        """Count one value, 0 or more."""
        if self.low <= value < self.high:
            self.run += 1
        else:
            self.start_run(value)

    def fill(self, total: int) -> None:
        """Count zeros until it has counted `total` values."""
        self._end_run()
        zeros = total - sum(self._counts)
        if zeros > 0:
            self.start_run(0)
            self.run = zeros

    def counts(self) -> dict[int, int]:
        """The counts so far by bucket, in ascending order; 0 where a bucket is missing."""
        self._end_run()
        return {bucket: count for bucket, count in enumerate(self._counts, int(self._first)) if count}

    def entries(self) -> list[int]:
        """The counts so far as they are exported, by bucket in ascending order."""
        self._end_run()
        first = int(self._first)
        return [count << COUNT_SHIFT | bucket for bucket, count in enumerate(self._counts, first) if count]

    def add_to(self, sums: list[int]) -> None:
        """Add the counts so far to `sums`, a list of BUCKETS."""
        self._end_run()
        bucket = self._first
        for count in self._counts:
            sums[bucket] += count
            bucket += 1

    def start_run(self, value: i64) -> None:
        """Count a value that begins a new run.

        The first bucket also counts values below 0, the last one all larger ones. C finds an octave by halves.
        """
        self._end_run()
        self.run = 1
        if value < 16:
            self._bucket = self.low = value if value > 0 else 0
            self.high = self.low + 1
        elif value >= _LAST:
            self._bucket, self.low, self.high = BUCKETS - 1, _LAST, _NO_BOUND
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
            self.low = step << octave
            self.high = self.low + (1 << octave)

    def _end_run(self) -> None:
        if self.run:
            counts = self._counts
            index: i64 = self._bucket - self._first
            if 0 <= index < len(counts):
                counts[index] += int(self.run)
            else:
                self._widen(index)
            self.run = 0

    def _widen(self, index: i64) -> None:
        """Put the run before or behind the counts so far."""
        counts = self._counts
        if not counts:
            self._first = self._bucket
        elif index < 0:
            counts[:0] = [0] * int(-index)
            self._first = self._bucket
            counts[0] = int(self.run)
            return
        else:
            counts += [0] * int(index - len(counts))
        counts.append(int(self.run))
