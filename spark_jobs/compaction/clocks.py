"""Brokers whose clock is off, by comparing what their rows say with when their files were written."""

from collections import defaultdict
from collections.abc import Iterable
from statistics import median, quantiles
from typing import Final

from spark_jobs.compaction.state import FileRecord, Note

AHEAD_US: Final = 60 * 1_000_000  # rows that end so much later than their file was written cannot be right
OFF_US: Final = 30 * 60 * 1_000_000  # off the middle of all brokers
STEADY_US: Final = 10 * 60 * 1_000_000  # files that were copied later tell nothing: their lags are all over the place
CLOCK: Final = "clock"


def off_clocks(files: Iterable[FileRecord]) -> tuple[Note, ...]:
    """One note for each broker whose clock seems to be off, by the median lag of its files.

    A file's lag is the time from its last interval_end to when it was written: seconds, if the broker's clock agrees
    with that of the file system.
    """
    lags: dict[str, list[int]] = defaultdict(list)
    for file in files:
        if len(file.brokers) == 1 and file.last_us is not None:
            lags[file.brokers[0]].append(file.modified_us - file.last_us)
    middles = {broker: median(values) for broker, values in lags.items()}
    notes = []
    steady = {broker: middles[broker] for broker, values in lags.items() if _spread(values) <= STEADY_US}
    for broker, middle in sorted(middles.items()):
        if middle < -AHEAD_US:
            notes.append(
                Note(CLOCK, broker, f"rows end {_minutes(-middle)} after their files were written: it is fast")
            )
            continue
        others = [value for name, value in steady.items() if name != broker]
        if broker in steady and others and abs(middle - median(others)) > OFF_US:
            off = middle - median(others)
            word = "slow" if off > 0 else "fast"
            notes.append(
                Note(CLOCK, broker, f"rows are {_minutes(abs(off))} off those of the other brokers: it is {word}")
            )
    return tuple(notes)


def _spread(values: list[int]) -> float:
    if len(values) < 2:
        return 0.0
    low, _, high = quantiles(values, n=4, method="inclusive")
    return high - low


def _minutes(us: float) -> str:
    return f"{us / 60_000_000:,.0f} minutes" if us >= 120_000_000 else f"{us / 1_000_000:,.0f} s"
