"""The report from end to end: compacted hours in; tables, page and summary out."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, tzinfo
from math import lcm
from typing import TYPE_CHECKING, Final

from spark_jobs.errors import ReportError
from spark_jobs.formats import in_zone, span
from spark_jobs.progress import Progress
from spark_jobs.storage import Storage, StorageError, open_storage

if TYPE_CHECKING:

    from spark_jobs.measures.frames import StoreFrames
    from spark_jobs.measures.result import Result
    from spark_jobs.spark import Starting
    from spark_jobs.store.store import Selection, Store

STARVED_AFTER: Final = 3
SECOND_US: Final = 1_000_000
HOUR_US: Final = 3_600 * SECOND_US
_EPOCH: Final = datetime.fromtimestamp(0, UTC)
_OWN_STORE: Final = "_store"  # below OUT: temporary store of a report that is made from metrics files


@dataclass(frozen=True)
class Source:
    """The input of one run of the report.

    Attributes:
        label: its name in the report.
        store: URI of the compacted hours; None: `metrics` are compacted for this report only.
        metrics: URI of the exporter's files; None if `store` is given.
        start, end: requested range of time, [start, end); None: open. The report covers all hours that overlap it.
        broker: only this broker; None: all.
        version: of the store; None: the newest one.
    """

    label: str
    store: str | None = None
    metrics: str | None = None
    start: datetime | None = None
    end: datetime | None = None
    broker: str | None = None
    version: int | None = None

    @property
    def start_us(self) -> int | None:
        """The start of the first hour in microseconds since 1970."""
        return None if self.start is None else _us(self.start) // HOUR_US * HOUR_US

    @property
    def end_us(self) -> int | None:
        """The end of the last hour in microseconds since 1970."""
        return None if self.end is None else -(-_us(self.end) // HOUR_US) * HOUR_US

    @property
    def is_widened(self) -> bool:
        """Whether the requested range does not consist of whole hours, so that the report covers more."""
        asked = [_us(time) for time in (self.start, self.end) if time is not None]
        return any(time % HOUR_US for time in asked)


@dataclass(frozen=True)
class Options:
    """The options of a report.

    Attributes:
        sources: one; or two to compare, the baseline first.
        out: URI of the report's folder.
        master: Spark's master URL; None for all processors of this machine, under spark-submit for its own.
        window: length of the timeline's windows in seconds; None: automatic.
        starved_after: a session is starved after this many intervals in a row without a delivery.
        thresholds: path of a file of limits, see `thresholds`; None: no limits.
        hash_key: client ids are replaced with digests by this key; None: they are shown.
        client: the report has a section and a table about this client id; None: about none.
        zone: the page's times are shown in it.
        webhook: URL that is told about the report when it is complete; None: none.
    """

    sources: tuple[Source, ...]
    out: str
    master: str | None = None
    window: int | None = None
    starved_after: int = STARVED_AFTER
    thresholds: str | None = None
    hash_key: str | None = None
    client: str | None = None
    zone: tzinfo = UTC
    webhook: str | None = None


def make_report(options: Options, progress: Progress, settings: Mapping[str, str] | None = None) -> bool:
    """Make the report in OUT: report.html, summary.json, metrics.prom, tables/, and compare.svg for two runs.

    A baseline without rows in its range is left out; the report says so.

    Args:
        options: what to read and where to write.
        progress: prints each stage.
        settings: Spark settings that override the built-in ones.

    Returns:
        Whether all values are within their thresholds.

    Raises:
        ReportError: the input, the output folder or the machine cannot be used.
    """
    from spark_jobs import spark

    spark.require_packages()
    from spark_jobs.publish import publish, writable
    from spark_jobs.thresholds import check, read_thresholds
    from spark_jobs.webhook import tell

    limits = read_thresholds(options.thresholds) if options.thresholds is not None else {}
    out = open_storage(options.out)
    with (
        writable(out),
        in_zone(options.zone),
        spark.beside(options.master, progress, settings) as starting,
        _sources(starting, options, out, progress) as frames,
    ):
        results = _measure(frames, options, progress)
        with progress.stage("writing tables and page") as stage:
            checked = check(results[-1], limits)
            summary = publish(results, out, checked)
            stage.note = f"{options.out.rstrip('/')}/report.html"
    exceeded = [each for each in checked if each.exceeded]
    for each in exceeded:
        progress.warn(f"threshold exceeded: {each}")
    if options.webhook is not None:
        try:
            tell(options.webhook, summary, options.out)
        except ReportError as error:
            if not exceeded:
                raise
            progress.warn(str(error))  # what was found is more important
    return not exceeded


@contextmanager
def _sources(
    starting: "Starting",
    options: Options,
    out: Storage,
    progress: Progress,
) -> "Iterator[list[StoreFrames]]":
    """The compacted rows of each source; temporary stores are removed afterwards."""
    from spark_jobs import sources as reading
    from spark_jobs.compaction.compact import Options as Compaction
    from spark_jobs.compaction.compact import compact
    from spark_jobs.store.store import Selection, open_store

    own: list[str] = []
    try:
        opened = []
        for number, source in enumerate(options.sources):
            if source.is_widened:
                progress.warn(f"{source.label}: extended to whole hours, {span(source.start_us, source.end_us)}")
            uri = source.store
            if uri is None:
                own.append(f"{_OWN_STORE}-{number}")
                out.remove(own[-1])
                uri = out.uri_of(own[-1])
                asked = Compaction(source.metrics or "", uri, None, source.start_us, source.end_us)
                compact(asked, starting, progress)
            store = open_store(uri, source.version)
            opened.append((store, Selection(source.start_us, source.end_us, source.broker)))
        starting.begin()
        with _name_damaged_files(opened):
            frames = [reading.frames_of(starting, store, selection) for store, selection in opened]
            starting(sum(sum(part.hour_rows.values()) for part in frames))
            yield frames
    finally:
        for name in own:
            out.remove(name)


@contextmanager
def _name_damaged_files(opened: "Iterable[tuple[Store, Selection]]") -> Iterator[None]:
    """If the block fails, check whether a file of a store is damaged, and raise an error that names it."""
    import pyarrow as pa
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from spark_jobs.compaction.check import require_sound

    try:
        yield
    except (pa.ArrowException, OSError, StorageError, PySparkException, Py4JError):
        for store, selection in opened:
            require_sound(store, selection)
        raise


def _measure(frames: "Sequence[StoreFrames]", options: Options, progress: Progress) -> "list[Result]":
    from spark_jobs.comparison.compare import with_comparison
    from spark_jobs.measures.client import NAME as CLIENT
    from spark_jobs.measures.frames import Finding
    from spark_jobs.measures.hashing import hashed
    from spark_jobs.measures.measure import measure

    labels = [source.label for source in options.sources]
    if len(frames) > 1 and frames[0].sessions.isEmpty():
        told = f"The baseline {labels[0]} has no rows in its range; the report has no comparison."
        progress.warn(told)
        alone = replace(frames[1], findings=(*frames[1].findings, Finding("baseline", 1, labels[0], told)))
        frames, labels = [alone], labels[1:]
    window_us = _common_window(frames, options.window)
    results = [
        measure(
            part,
            label,
            progress,
            window_us=window_us,
            starved_after=options.starved_after,
            client_id=options.client,
        )
        for part, label in zip(frames, labels, strict=True)
    ]
    if options.client is not None and not results[-1].tables[CLIENT].num_rows:
        raise ReportError(f"--client {options.client}: had no session in the requested range")
    if options.hash_key is not None:
        results = [hashed(result, options.hash_key) for result in results]
    return results if len(results) == 1 else [results[0], with_comparison(results[0], results[1], options.zone)]


def _common_window(frames: "Sequence[StoreFrames]", asked: int | None) -> int | None:
    """A length of the timeline's windows that suits all runs; None: the single run chooses its own.

    Raises:
        ReportError: the requested length is not possible.
    """
    from spark_jobs.measures.timeline import choose_window

    slot_us = lcm(*[part.slot_us for part in frames])
    if asked is not None:
        if asked * SECOND_US % slot_us:
            raise ReportError(
                f"--window {asked}s: must be a whole number of the timeline's slots of {slot_us // SECOND_US}s"
            )
        return asked * SECOND_US
    if len(frames) == 1:
        return None
    return max(choose_window(*_extent(part), slot_us) for part in frames)


def _extent(frames: "StoreFrames") -> tuple[int, int]:
    """The start of the timeline's first slot, and the end of its last."""
    from pyspark.sql import functions as F

    [(first, last)] = frames.timeline.agg(F.min("slot"), F.max("slot")).collect()
    return first or 0, (last or 0) + frames.slot_us


def _us(time: datetime) -> int:
    return (time - _EPOCH) // timedelta(microseconds=1)
