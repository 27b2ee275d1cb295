"""The computation on Spark: from the good files of a folder to the small tables of the report."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.storagelevel import StorageLevel

from spark_jobs import fairness, results, tables, transforms, windows
from spark_jobs.errors import ReportError
from spark_jobs.files import Survey, span
from spark_jobs.progress import Progress
from spark_jobs.run import Run
from spark_jobs.spark import read_metrics

WORST_SESSIONS: Final = 20

# Per table: its name in all, its name per window (if it has one), and by what its rows are sorted besides
# time.
_DELIVERIES: Final = ("totals", "by_window", ("qos",))
_REASONS: Final = ("reasons", "reasons_by_window", ("qos", "what", "reason"))
_FAIRNESS: Final = ("fairness", "fairness_by_window", ("qos",))
_PERCENTILES: Final = ("percentiles", "percentiles_by_window", ("metric", "qos"))
_HISTOGRAMS: Final = ("histograms", None, ("metric", "qos", "bucket"))
_PRESSURE: Final = ("pressure", None, ())
_QUEUES: Final = ("queues", "queues_by_window", ())
_BOOKS: Final = ("books", None, ("qos",))
_WORST: Final = ("worst_sessions", None, ())

_Names = tuple[str, str | None, tuple[str, ...]]


@dataclass(frozen=True)
class Extent:
    """How much there is in the range: rows, first and last interval_end, usual interval (microseconds)."""

    rows: int
    first_us: int
    last_us: int
    interval_us: int


def rows_of(spark: SparkSession, survey: Survey, start: datetime | None, end: datetime | None) -> DataFrame:
    """The rows of the surveyed files in [start, end)."""
    return transforms.in_range(read_metrics(spark, [file.path for file in survey.good]), start, end)


def measure(rows: DataFrame, survey: Survey, start: datetime | None, end: datetime | None) -> Extent:
    """Find out how much there is.

    Raises:
        ReportError: nothing; the message says what there is outside of the range.
    """
    found = rows.transform(transforms.overview).collect()[0]
    if found["rows"] == 0:
        firsts = [file.first for file in survey.good if file.first is not None]
        lasts = [file.last for file in survey.good if file.last is not None]
        there = (
            f"the files hold {min(firsts).isoformat()} to {max(lasts).isoformat()}"
            if firsts
            else "the files are empty"
        )
        raise ReportError(
            f"--metrics {survey.root}: no rows in the asked range ({span(start, end)}); {there}"
        )
    interval = found["active_interval_us"] or found["interval_us"]
    return Extent(found["rows"], found["first_us"], found["last_us"], max(interval, 1))


@contextmanager
def _kept(frame: DataFrame) -> Iterator[DataFrame]:
    """Keep a frame that several tables are made from, in memory or else on disk."""
    kept = frame.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield kept
    finally:
        kept.unpersist()


class _Tables:
    """Collects result tables under their names."""

    def __init__(self, label: str) -> None:
        self._label = label
        self.found: dict[str, pa.Table] = {}

    def add(self, frame: DataFrame, names: _Names) -> None:
        in_all, per_window, sort = names
        windowed, whole = tables.split(frame.toArrow(), self._label, sort)
        self.found[in_all] = whole
        if per_window is not None:
            self.found[per_window] = windowed


def analyse(
    rows: DataFrame, extent: Extent, label: str, survey: Survey, window_us: int, progress: Progress
) -> Run:
    """Compute all tables of one folder.

    Args:
        rows: the rows in the range.
        extent: how much that is.
        label: name of the run in the report.
        survey: the files that the rows are from.
        window_us: length of a window.
        progress: told of each stage.
    """
    slot_us = windows.choose_slot(window_us, extent.interval_us)
    clocked = transforms.with_clock(rows, window_us, slot_us)
    found = _Tables(label)
    with progress.stage(f"{label}: deliveries, drops and pressure per window") as stage:
        slots = transforms.with_slot_seconds(transforms.by_slot(clocked), slot_us)
        with _kept(transforms.by_window(slots)) as per_window:
            found.add(results.deliveries(per_window), _DELIVERIES)
            found.add(results.reasons(per_window), _REASONS)
            found.add(results.pressure(per_window), _PRESSURE)
            found.add(results.queues(per_window), _QUEUES)
            found.add(results.books(per_window), _BOOKS)
        points = len(found.found["by_window"]["window_start"].unique())
        stage.note = f"{extent.rows:,} rows, {points} windows of {window_us // 1_000_000} s"
    with progress.stage(f"{label}: distributions and percentiles") as stage:
        with _kept(transforms.distributions(clocked)) as per_window:
            distributions = transforms.with_whole_range(per_window)
            found.add(results.percentiles(distributions), _PERCENTILES)
            found.add(results.buckets(distributions), _HISTOGRAMS)
        stage.note = f"{len(found.found['percentiles'])} distributions"
    with progress.stage(f"{label}: fairness over sessions") as stage:
        sessions = _per_session(clocked, found)
        stage.note = f"{sessions:,} sessions"
    return Run(
        label=label,
        survey=survey,
        rows=extent.rows,
        sessions=sessions,
        first_us=extent.first_us,
        last_us=extent.last_us,
        window_us=window_us,
        slot_us=slot_us,
        tables=found.found,
    )


def _per_session(clocked: DataFrame, found: _Tables) -> int:
    """Fairness and the worst sessions; returns how many sessions there are."""
    with _kept(transforms.by_session_and_window(clocked)) as parts:
        sessions = transforms.by_session(parts)
        per_window = fairness.fairness(parts, ["window_us"])
        in_all = transforms.with_null_window(fairness.fairness(sessions))
        found.add(per_window.unionByName(in_all), _FAIRNESS)
        with _kept(fairness.worst_sessions(sessions, WORST_SESSIONS)) as few:
            worst = fairness.worst_first(transforms.waiting_times_of(few, clocked))
            found.add(results.worst(worst), _WORST)
        return sessions.count()


def common_window(extents: Sequence[Extent], asked: int | None) -> int:
    """The window length in seconds that all sources share; checked if it was asked for."""
    if asked is not None:
        for extent in extents:
            windows.check_window(asked, extent.first_us, extent.last_us)
        return asked
    return max(windows.choose_window(e.first_us, e.last_us, e.interval_us) for e in extents)
