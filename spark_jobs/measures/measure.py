"""Computes all measures of one run: from the compacted rows of a selection to a `Result`."""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # its usual name
from pyspark.storagelevel import StorageLevel

from spark_jobs.compaction.state import hour_name
from spark_jobs.errors import ReportError
from spark_jobs.measures import (
    blocking,
    fairness,
    gate,
    hours,
    lorenz,
    percentiles,
    quality,
    reasons,
    starvation,
    timeline,
    top,
    totals,
    worst_hours,
)
from spark_jobs.measures.frames import Finding, StoreFrames
from spark_jobs.measures.layout import LAYOUTS, RUN, STARVED_SESSIONS
from spark_jobs.measures.result import Facts, Result, Row, table
from spark_jobs.measures.sessions import CLOCKS, KEY, listeners_of, per_session
from spark_jobs.measures.starvation import STARVED_AFTER
from spark_jobs.measures.sums import Sums, hourly_sums
from spark_jobs.measures.why import shares, why_starved
from spark_jobs.metrics import DROP_REASONS
from spark_jobs.progress import Progress
from spark_jobs.spark import cached

# Not in memory: its size depends on the number of sessions, and a local driver shares its memory with executors.
_KEPT: Final = StorageLevel.DISK_ONLY


def measure(
    frames: StoreFrames,
    label: str,
    progress: Progress,
    *,
    window_us: int | None = None,
    starved_after: int = STARVED_AFTER,
) -> Result:
    """Compute every table of `layout.LAYOUTS` except `comparison`.

    Args:
        frames: the compacted rows.
        label: name of the run in the report.
        progress: prints each stage.
        window_us: length of the timeline's windows, a whole number of slots; None: chosen. Runs that are
            compared should share one, see `timeline.choose_window`.
        starved_after: a session is starved after this many intervals in a row without a delivery.

    Raises:
        ReportError: there are no rows.
    """
    with progress.stage(f"{label}: sums of every hour") as stage:
        sums = hourly_sums(frames.sessions)
        if not sums.hours:
            raise ReportError(f"{label}: no rows in the requested range. {frames.there}".strip())
        whole = sums.whole
        stage.note = f"{whole['rows']:,} rows, {whole.sessions:,} session hours, {len(sums.hours):,} hours"
    tables: dict[str, list[Row]] = {}
    window_us = window_us or timeline.choose_window(whole["first_us"], whole["last_us"], frames.slot_us)
    with progress.stage(f"{label}: the timeline"):
        clock = timeline.by_window(frames.timeline, frames.slot_us, window_us)
        tables["timeline"] = timeline.timeline(clock, window_us)
    tables |= _of_sums(sums, clock)
    with _sessions(frames, sums, starved_after) as kept:
        with progress.stage(f"{label}: fairness over sessions") as stage:
            tables |= _fairness(kept)
            stage.note = f"{kept.counts['sessions']:,} sessions"
        with progress.stage(f"{label}: starvation and the worst sessions") as stage:
            tables |= _starvation(kept) | _named(kept)
            stage.note = f"{tables['starvation'][0]['sessions']:,} starved"
        with progress.stage(f"{label}: fairness hour by hour"):
            even = hours.by_hour(frames.sessions, kept.interval_us)
            tables["hours"] = hours.hours(sums, even, kept.starved_by_hour)
        findings = (*frames.findings, *lost(frames, sums, progress))
        tables["quality"] = quality.quality(kept.counts, whole, frames.files, findings)
        tables["files"] = quality.files_table(frames.files)
        facts = _facts(frames, label, kept, window_us)
    return Result(facts, _as_arrow(tables, label), _all_starved(frames, label, starved_after))


def lost(frames: StoreFrames, sums: Sums, progress: Progress) -> Iterator[Finding]:
    """Hours with missing rows in the store."""
    if frames.broker is not None:  # ledgers do not have the number of rows by broker
        return
    there = {hour: part["rows"] for hour, part in sums.hours.items()}
    short = [hour for hour, rows in sorted(frames.hour_rows.items()) if there.get(hour, 0) != rows]
    if short:
        text = "Hours with missing rows in the store: remove their folders and compact again."
        progress.warn(f"{len(short)} hours, the first {hour_name(short[0])}. {text}")
        yield Finding("damaged_hours", len(short), hour_name(short[0]), text)


@dataclass(frozen=True)
class _Kept:
    """Cached frames that several tables use, and facts about them.

    Attributes:
        sessions: one row per session, see `sessions.per_session`.
        pieces: runs of starvation split at hours, see `starvation.with_runs`.
    """

    frames: StoreFrames
    sums: Sums
    sessions: DataFrame
    pieces: DataFrame
    starved_after: int

    @property
    def interval_us(self) -> int:
        """The usual interval: the mean length."""
        return max(1, self.sums.whole["duration_us"] // max(1, self.sums.whole["rows"]))

    @cached_property
    def counts(self) -> Row:
        """The numbers of sessions, in total and of several kinds; the brokers' names."""
        kinds = {
            "window_full": top.window_full(),
            "inverted": F.col("inverted_qos0") > 0,
            **{kind: F.col(kind) > 0 for kind in blocking.REPORTS},
        }
        found = self.sessions.agg(
            F.count(F.lit(1)).alias("sessions"),
            F.array_sort(F.collect_set("broker")).alias("brokers"),
            *[F.count_if(which).alias(kind) for kind, which in kinds.items()],
            *quality.session_findings(),
        )
        return dict(found.collect()[0].asDict())

    @cached_property
    def starved_by_hour(self) -> Mapping[int, int]:
        """Hour -> number of starved sessions."""
        rows = starvation.per_hour(self.pieces, self.starved_after).collect()
        return {row["hour_us"]: row["sessions"] for row in rows}


@contextmanager
def _sessions(frames: StoreFrames, sums: Sums, starved_after: int) -> Iterator[_Kept]:
    """Merge the hours of every session, once for all tables."""
    sessions = per_session(frames.sessions, listeners_of(frames.sessions)).persist(_KEPT)
    pieces = starvation.with_runs(frames.starvation).persist(_KEPT)
    with cached(pieces, sessions):
        yield _Kept(frames, sums, sessions, pieces, starved_after)


def _of_sums(sums: Sums, clock: timeline.Clock) -> dict[str, list[Row]]:
    """The tables that only need sums."""
    whole = sums.whole
    return {
        "totals": totals.totals(whole, clock),
        "books": totals.books(whole),
        "queues": totals.queues(whole),
        "reasons": reasons.reasons(whole),
        "percentiles": percentiles.percentiles(whole),
        "histograms": percentiles.histograms(whole),
        "gate": gate.gate(whole),
    }


def _fairness(kept: _Kept) -> dict[str, list[Row]]:
    whole, counts = kept.sums.whole, kept.counts
    groups = fairness.largest_groups(kept.sessions)
    return {
        "fairness": fairness.fairness(kept.sessions, kept.interval_us, groups),
        "lorenz": lorenz.lorenz(kept.sessions, kept.interval_us),
        "head_of_line": blocking.head_of_line(whole, counts),
        "stalled": blocking.stalled(whole, counts),
        "inversion": blocking.inversion(whole, counts),
    }


def _starvation(kept: _Kept) -> dict[str, list[Row]]:
    runs = starvation.runs_of(kept.pieces)
    lengths = starvation.by_length(runs, kept.starved_after)
    worst = starvation.worst_starved(starvation.starved_sessions(runs, kept.starved_after))
    times = ("duration_us", "connected_us", *[f"{clock}_us" for clock in CLOCKS])
    known = kept.sessions.select(
        *KEY,
        "listener",
        "topic_group",
        "mqueue_max",
        "paced_for_us",
        *times,
        *[f"dropped_{reason}" for reason in DROP_REASONS],
        F.col("offered").alias("offered_in_range"),
        F.col("sent").alias("sent_in_range"),
    )
    found = [row.asDict() for row in known.join(F.broadcast(worst), on=list(KEY)).collect()]
    found.sort(key=lambda row: (-row["longest_us"], -row["starved_us"], *[row[name] for name in KEY]))
    listed = [name for name, _ in LAYOUTS["starved_worst"].columns]
    return {
        "starvation": starvation.starvation(lengths, kept.starved_after),
        "starved_worst": [
            {name: value for name, value in row.items() if name in listed}
            | shares(row)
            | {"why": why_starved(row)}
            for row in found
        ],
    }


def _named(kept: _Kept) -> dict[str, list[Row]]:
    """The tables that list the first sessions in some order."""
    first = top.first_of_each(kept.sessions)
    received = totals.received(kept.sums.whole)
    worst = first[top.WORST]
    times = worst_hours.hours_of(kept.frames.sessions, worst, len(kept.sums.hours))
    return {
        "worst_sessions": [
            {**top.worst_session(row), **worst_hours.wait_p99(times, rank)} for rank, row in enumerate(worst, 1)
        ],
        "worst_hours": worst_hours.worst_hours(times, worst),
        "inverted_sessions": [top.inverted_session(row) for row in first[top.INVERTED]],
        "head_of_line_sessions": [top.head_of_line_session(row) for row in first[top.HEAD_OF_LINE]],
        "stalled_sessions": [top.stalled_session(row) for row in first[top.STALLED]],
        "paced_for_sessions": [top.paced_for_session(row) for row in first[top.PACED_FOR]],
        "publishers": [
            top.publisher(row, received["messages"], received["bytes"]) for row in first[top.PUBLISHERS]
        ],
    }


def _facts(frames: StoreFrames, label: str, kept: _Kept, window_us: int) -> Facts:
    whole = kept.sums.whole
    return Facts(
        label=label,
        rows=whole["rows"],
        sessions=kept.counts["sessions"],
        brokers=tuple(kept.counts["brokers"]),
        hours=len(kept.sums.hours),
        first_us=whole["first_us"],
        last_us=whole["last_us"],
        slot_us=frames.slot_us,
        window_us=window_us,
        interval_us=kept.interval_us,
        starved_after=kept.starved_after,
        watermarks=dict(sorted(frames.watermarks.items())),
        files=dict(sorted(Counter(file.status for file in frames.files).items())),
        asked_from_us=frames.asked_from_us,
        asked_to_us=frames.asked_to_us,
        broker=frames.broker,
    )


def _as_arrow(tables: Mapping[str, list[Row]], label: str) -> dict[str, pa.Table]:
    return {name: table(name, label, tables[name]) for name in LAYOUTS if name in tables}


def _all_starved(frames: StoreFrames, label: str, starved_after: int) -> DataFrame:
    """Every starved session, the longest first; computed when it is written."""
    runs = starvation.runs_of(starvation.with_runs(frames.starvation))
    starved = starvation.starved_sessions(runs, starved_after)
    known = frames.sessions.groupBy(*KEY).agg(
        F.max_by("listener", "hour_us").alias("listener"), F.max("topic_group").alias("topic_group")
    )
    columns = [F.lit(label).alias(RUN), *[F.col(name) for name, _ in STARVED_SESSIONS.columns]]
    return starved.join(known, on=list(KEY)).select(*columns).orderBy(F.desc("longest_us"), *KEY)
