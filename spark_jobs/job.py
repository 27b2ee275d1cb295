"""The report from end to end: survey the files, compute with Spark, write tables, page and summary."""

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from spark_jobs.progress import Progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_jobs.files import Survey
    from spark_jobs.run import Run


@dataclass(frozen=True)
class Source:
    """One metrics folder and its name in the report."""

    metrics: Path
    label: str


@dataclass(frozen=True)
class Options:
    """What the command line asks for.

    Attributes:
        sources: one folder; or two to compare, the baseline first.
        out: where the report goes.
        start, end: range of interval_end, [start, end); None leaves a side open.
        master: Spark's master URL; None for all processors of this machine.
        window: length of a window in seconds; None for automatic.
    """

    sources: tuple[Source, ...]
    out: Path
    start: datetime | None = None
    end: datetime | None = None
    master: str | None = None
    window: int | None = None


def make_report(
    options: Options, progress: Progress, settings: Mapping[str, str] | None = None
) -> "list[Run]":
    """Make the report: OUT/report.html, OUT/summary.json, OUT/tables/, and OUT/compare.svg for two folders.

    Args:
        options: what to read and where to write.
        progress: told of each stage.
        settings: Spark settings over the built-in ones.

    Raises:
        ReportError: something about the input, the output folder or the machine will not do.
    """
    from spark_jobs import spark

    spark.require_packages()
    from spark_jobs.publish import publish
    from spark_jobs.tables import prepare_folder

    prepare_folder(options.out)
    surveys = [_survey(source, options, progress) for source in options.sources]
    with ExitStack() as stack:
        with progress.stage("starting Spark") as stage:
            started = stack.enter_context(
                spark.session(options.master, rows=sum(survey.rows for survey in surveys), settings=settings)
            )
            stage.note = started.words
        runs = _analyse_readable(started.spark, options, surveys, progress)
    with progress.stage("writing tables and page") as stage:
        publish(runs, options.out)
        stage.note = str(options.out / "report.html")
    return runs


def _survey(source: Source, options: Options, progress: Progress) -> "Survey":
    from spark_jobs.files import survey

    with progress.stage(f"{source.label}: reading footers in {source.metrics}") as stage:
        found = survey(source.metrics, options.start, options.end)
        stage.note = f"{len(found.good)} files with {found.rows:,} rows, {len(found.skipped)} skipped"
    for skipped in found.skipped:
        progress.warn(f"skipped {skipped.path}: {skipped.reason}")
    return found


def _analyse_readable(
    spark: "SparkSession", options: Options, surveys: "list[Survey]", progress: Progress
) -> "list[Run]":
    """Analyse; if a file turns out to be damaged behind a sound footer, leave it out and start again."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    from spark_jobs.files import read_through, require_good

    while True:
        try:
            return _analyse(spark, options, surveys, progress)
        except (Py4JJavaError, PySparkException):
            damaged = [read_through(survey) for survey in surveys]
            if not any(damaged):
                raise
            for skipped in (file for files in damaged for file in files):
                progress.warn(f"skipped {skipped.path}: {skipped.reason}; starting again without it")
            surveys = [survey.without(bad) for survey, bad in zip(surveys, damaged, strict=True)]
            for survey in surveys:
                require_good(survey)


def _analyse(
    spark: "SparkSession", options: Options, surveys: "list[Survey]", progress: Progress
) -> "list[Run]":
    from spark_jobs.analysis import analyse, common_window, measure, rows_of

    frames = [rows_of(spark, survey, options.start, options.end) for survey in surveys]
    extents = []
    for source, survey, rows in zip(options.sources, surveys, frames, strict=True):
        with progress.stage(f"{source.label}: looking at the range") as stage:
            extent = measure(rows, survey, options.start, options.end)
            seconds = (extent.last_us - extent.first_us) / 1e6
            stage.note = f"{extent.rows:,} rows over {seconds:,.0f} s"
            extents.append(extent)
    window_us = common_window(extents, options.window) * 1_000_000
    return [
        analyse(rows, extent, source.label, survey, window_us, progress)
        for rows, extent, source, survey in zip(frames, extents, options.sources, surveys, strict=True)
    ]
