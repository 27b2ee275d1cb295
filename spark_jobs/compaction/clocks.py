"""Finds brokers with a wrong clock, by comparing the times of their rows with the times of their files."""

from collections import defaultdict
from collections.abc import Iterable
from statistics import median, median_low, quantiles
from typing import Final

from spark_jobs.store.taken import FileRecord, Note

AHEAD_US: Final = 60 * 1_000_000  # rows that end this much after their file was written: the clock is fast
OFF_US: Final = 30 * 60 * 1_000_000  # difference from the usual lag of all brokers
STEADY_US: Final = 10 * 60 * 1_000_000  # files with a larger spread of lags have been copied later and are ignored
CLOCK: Final = "clock"


def off_clocks(files: Iterable[FileRecord]) -> tuple[Note, ...]:
    """One note for each broker with a wrong clock, judged by the median lag of its files.

    A file's lag is the time from its last interval_end to its modification: a few seconds, if the clocks of the broker
    and the file system agree.
    """
    lags: dict[str, list[int]] = defaultdict(list)
    for file in files:
        if len(file.brokers) == 1 and file.last_us is not None:
            lags[file.brokers[0]].append(file.modified_us - file.last_us)
    medians = {broker: median(values) for broker, values in sorted(lags.items())}
    ahead = {broker for broker, lag in medians.items() if lag < -AHEAD_US}
    steady = {broker: medians[broker] for broker in medians.keys() - ahead if _spread(lags[broker]) <= STEADY_US}
    # Of two medians the lower one: a small lag is more plausible.
    usual = median_low(steady.values()) if steady else 0.0
    notes = []
    for broker, lag in medians.items():
        if broker in ahead:
            notes.append(
                Note(CLOCK, broker, f"rows end {_minutes(-lag)} after their files were written: it is fast")
            )
        elif broker in steady and abs(lag - usual) > OFF_US:
            word = "slow" if lag > usual else "fast"
            off = _minutes(abs(lag - usual))
            notes.append(Note(CLOCK, broker, f"rows are {off} off those of the other brokers: it is {word}"))
    return tuple(notes)


def _spread(values: list[int]) -> float:
    if len(values) < 2:
        return 0.0
    low, _, high = quantiles(values, n=4, method="inclusive")
    return high - low


def _minutes(us: float) -> str:
    return f"{us / 60_000_000:,.0f} minutes" if us >= 120_000_000 else f"{us / 1_000_000:,.0f} s"
