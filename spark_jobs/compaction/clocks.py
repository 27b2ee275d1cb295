"""Brokers whose clock is off, by comparing what their rows say with when their files were written."""

from collections import defaultdict
from collections.abc import Iterable
from statistics import median, median_low, quantiles
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
    middles = {broker: median(values) for broker, values in sorted(lags.items())}
    ahead = {broker for broker, middle in middles.items() if middle < -AHEAD_US}
    steady = {broker: middles[broker] for broker in middles.keys() - ahead if _spread(lags[broker]) <= STEADY_US}
    # Of two in the middle the lower: the less a file lags behind its rows, the less there is to explain.
    usual = median_low(steady.values()) if steady else 0.0
    notes = []
    for broker, middle in middles.items():
        if broker in ahead:
            notes.append(
                Note(CLOCK, broker, f"rows end {_minutes(-middle)} after their files were written: it is fast")
            )
        elif broker in steady and abs(middle - usual) > OFF_US:
            word = "slow" if middle > usual else "fast"
            off = _minutes(abs(middle - usual))
            notes.append(Note(CLOCK, broker, f"rows are {off} off those of the other brokers: it is {word}"))
    return tuple(notes)


def _spread(values: list[int]) -> float:
    if len(values) < 2:
        return 0.0
    low, _, high = quantiles(values, n=4, method="inclusive")
    return high - low


def _minutes(us: float) -> str:
    return f"{us / 60_000_000:,.0f} minutes" if us >= 120_000_000 else f"{us / 1_000_000:,.0f} s"
