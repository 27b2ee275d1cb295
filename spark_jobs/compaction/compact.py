"""Compaction from end to end: find new files, build the hours that they affect, and commit these to the store.

Files are never changed in place: new ones are written beside them, and one commit of the store's tables replaces the
old ones (`store.delta`). So a run that is killed leaves the old state or the new one. If two runs meet, the second to
commit starts again from what the first has committed.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from statistics import median_low
from typing import TYPE_CHECKING, Final

from spark_jobs.compaction import plan
from spark_jobs.compaction.attempts import until_committed
from spark_jobs.compaction.clocks import off_clocks
from spark_jobs.compaction.damage import damaged_among
from spark_jobs.compaction.engine import Engine
from spark_jobs.compaction.erasure import Removed, keep
from spark_jobs.compaction.footers import usual_interval
from spark_jobs.compaction.hour_builder import HourBuilder
from spark_jobs.compaction.known import Known
from spark_jobs.compaction.missing import require_all_files
from spark_jobs.compaction.plan import Hour, batches
from spark_jobs.compaction.slots import choose_slot, format_slot
from spark_jobs.compaction.survey import Survey, require_good, survey
from spark_jobs.errors import ReportError
from spark_jobs.formats import counted
from spark_jobs.progress import Progress
from spark_jobs.storage import Storage, is_hidden, open_storage
from spark_jobs.store.delta import (
    BROKERS,
    ERASED,
    SKIPPED,
    Change,
    ConflictError,
    Snapshot,
    commit,
    create,
    open_snapshot,
    replaced,
)
from spark_jobs.store.erased import NOTHING, Erased, erased_of
from spark_jobs.store.schema import HOUR_US
from spark_jobs.store.store import ledgers_of
from spark_jobs.store.taken import (
    NEWER,
    READ,
    FileRecord,
    Ledger,
    by_name,
    records_of,
    records_table,
    text,
    watermarks_of,
)

if TYPE_CHECKING:
    from spark_jobs.spark import SparkOf

FULL: Final = ("No space left on device", "Disk quota exceeded", "QuotaExceeded")
_MOST_ASKED: Final = 20  # files whose footers are read for the usual interval


@dataclass(frozen=True)
class Options:
    """The options of a compaction.

    Attributes:
        metrics, store: URIs.
        slot_us: length of the timeline's slots; None: the store's, or for a new one that of its rows' intervals.
        start_us, end_us: only hours that overlap this range; None: open.
        rebuild: build the hours of the range again from their raw files.
        accept_loss: rebuild also hours of which raw files are no longer there.
        keep_from_us: hours before this one are dropped afterwards, and not built; None: none are dropped.
    """

    metrics: str
    store: str
    slot_us: int | None = None
    start_us: int | None = None
    end_us: int | None = None
    rebuild: bool = False
    accept_loss: bool = False
    keep_from_us: int | None = None


@dataclass(frozen=True)
class Compacted:
    """The result of a compaction.

    Attributes:
        hours: number of built hours.
        rows: raw rows in them.
        files: valid raw files.
        skipped: invalid files.
        late: files with rows older than the broker's last compacted row.
        duplicates: rows left out because their key occurs in another file.
        slot_us: length of the timeline's slots.
        removed: what was dropped after it; None: nothing was asked for.
    """

    hours: int
    rows: int
    files: int
    skipped: int
    late: int
    duplicates: int
    slot_us: int
    removed: Removed | None = None

    def summary(self, store: str) -> str:
        """The result in one line."""
        dropped = f"; {self.removed}" if self.removed is not None else ""
        if not self.hours:
            return f"{store} is up to date with {self.files:,} files; {self.skipped:,} skipped{dropped}"
        return (
            f"{store}: {self.hours:,} hours built from {self.rows:,} rows, {self.files:,} files seen, "
            f"{self.skipped:,} skipped, {self.late:,} late, {self.duplicates:,} duplicate rows left out{dropped}"
        )


def compact(options: Options, spark_of: "SparkOf", progress: Progress) -> Compacted:
    """Update a store from a metrics folder.

    Args:
        options: the options.
        spark_of: returns the Spark session, started when needed: it is not called if nothing is new.
        progress: prints each stage.

    Raises:
        ReportError: the input, the store or the machine cannot be used.
    """
    metrics, store = open_storage(options.metrics), open_storage(options.store)
    _require_apart(metrics, store)
    store.make_folder()
    done = until_committed(lambda: _Compaction(options, metrics, store, spark_of, progress).run(), store, progress)
    if options.keep_from_us is None:
        return done
    return replace(done, removed=keep(options.store, options.keep_from_us, progress))


@dataclass
class _Compaction:
    """One attempt."""

    options: Options
    metrics: Storage
    store: Storage
    spark_of: "SparkOf"
    progress: Progress
    snapshot: Snapshot | None = None
    ledgers: dict[int, Ledger] = field(default_factory=dict)
    skipped: dict[str, FileRecord] = field(default_factory=dict)
    erased: Erased = NOTHING
    made: dict[int, Ledger] = field(default_factory=dict)

    def run(self) -> Compacted:
        self.snapshot = open_snapshot(self.store)
        _same_slot(self.options, self.snapshot)
        found = self._survey()
        before = dict(self.ledgers)
        while True:
            try:
                self._make(found, before)
                break
            except (ConflictError, ReportError):
                raise
            except Exception as error:  # whatever the values of a file cause
                _require_space(self.store, error)
                bad = damaged_among(self.spark_of(found.rows), self.metrics, found.good)
                if not bad:
                    raise
                for file in bad:
                    self.progress.warn(f"skipped {file.name}: {file.why}; restarting without it")
                good = tuple(file for file in found.good if file.name not in by_name(bad))
                found = replace(found, good=good, skipped=(*found.skipped, *bad))
                if not good and not found.unchanged:
                    require_good(self.metrics, found.skipped)
        self._note_skipped(found)
        return self._summary(found, before)

    def _survey(self) -> Survey:
        options = self.options
        if self.snapshot is not None:
            self.skipped = by_name(records_of(self.snapshot.arrow(SKIPPED)))
            self.erased = erased_of(self.snapshot)
        known = Known(None if options.rebuild else self.snapshot, self.skipped, self._left_out())
        with self.progress.stage(f"searching files in {self.metrics.shown}") as stage:
            found = survey(self.metrics, known, options.start_us, options.end_us)
            good = tuple(file for file in found.good if not self._left_out().has_all(file.hours))
            found = replace(found, good=good, unchanged=found.files - len(good))
            stage.note = (
                f"{counted(found.files, 'file')}, new ones with {counted(found.rows, 'row')} of sessions and intervals"
                f", {len(found.skipped):,} skipped"
            )
        if not (found.good or found.unchanged) and self.snapshot is None:
            require_good(self.metrics, found.skipped)
        if self.snapshot is not None:
            self.ledgers = ledgers_of(self.snapshot, hours=_hours_of(found.good))
            good = (*found.good, *self._beside(found))
            self.ledgers = ledgers_of(self.snapshot, hours=_hours_of(good))
            found = replace(found, good=good, unchanged=found.files - len(good))
        for skipped in found.skipped:
            if self.skipped.get(text(skipped.name)) != replace(skipped, name=text(skipped.name)):
                self.progress.warn(f"skipped {skipped.name}: {skipped.why}")
        return found

    def _left_out(self) -> Erased:
        """The hours that are not built: dropped ones, unless a range to rebuild names them, and those not kept."""
        options = self.options
        named = options.rebuild and (options.start_us is not None or options.end_us is not None)
        erased = NOTHING if named else self.erased
        return erased if options.keep_from_us is None else erased.with_hours(0, options.keep_from_us)

    def _beside(self, found: Survey) -> list[FileRecord]:
        """The unchanged files that have rows of the same hours as new files, and are still there."""
        before = by_name(file for ledger in self.ledgers.values() for file in ledger.files)
        brokers: dict[str, set[str]] = defaultdict(set)
        for ledger in self.ledgers.values():
            for file in ledger.files:
                brokers[file.name].update(file.brokers)
        folders = {name.rpartition("/")[0] for name in before}
        there = {(entry.name, entry.size, entry.modified_us) for each in folders for entry in self.metrics.files(each)}
        other = by_name((*found.good, *found.skipped))
        return [
            _as_found(file, brokers[name])
            for name, file in before.items()
            if name not in other and (name, file.size, file.modified_us) in there
        ]

    def _make(self, found: Survey, before: dict[int, Ledger]) -> None:
        """Build all changed hours in batches, and commit each batch."""
        options = self.options
        ledgers = {} if options.rebuild else self.ledgers
        left_out = self._left_out()
        planned = plan.plan(found.good, ledgers | self.made, options.start_us, options.end_us)
        hours = [hour for hour in planned if not left_out.has(hour.hour_us)]
        if not hours:
            return
        if options.rebuild and not options.accept_loss:
            require_all_files(hours, self.ledgers)
        engine = Engine(self.spark_of(found.rows), self.metrics, self.erased)
        if self.snapshot is None:
            slot_us = options.slot_us or self._usual_slot(hours)
            self.snapshot = create(self.store, slot_us)
            _same_slot(options, self.snapshot)
        watermarks = watermarks_of(self.snapshot.arrow(BROKERS))
        for batch in batches(hours):
            earlier = watermarks_of(self.snapshot.arrow(BROKERS))
            builder = HourBuilder(engine, self.snapshot, watermarks, earlier, before, self.progress)
            built = builder.build(batch)
            self.snapshot = commit(self.snapshot, {**built.changes, **self._restored(batch)})
            self.ledgers |= built.ledgers
            self.made |= built.ledgers

    def _restored(self, hours: Iterable[Hour]) -> dict[str, Change]:
        """The change of what is left out: dropped hours are there again."""
        assert self.snapshot is not None
        back = [hour.hour_us for hour in hours if self.erased.has(hour.hour_us)]
        if not back:
            return {}
        for hour_us in back:
            self.erased = self.erased.without_hours(hour_us, hour_us + HOUR_US)
        return {ERASED: replaced(self.snapshot, ERASED, self.erased.table())}

    def _usual_slot(self, hours: Iterable[Hour]) -> int:
        names = sorted({file.name for hour in hours for file in hour.files})
        some = names[:: -(-len(names) // _MOST_ASKED)]
        return choose_slot(median_low(usual_interval(self.metrics, name) for name in some))

    def _note_skipped(self, found: Survey) -> None:
        """Keep the list of skipped files, also of those that are missing now, and name wrong clocks."""
        if self.snapshot is None:
            return
        if self.made:
            for note in off_clocks(by_name(file for ledger in self.ledgers.values() for file in ledger.files).values()):
                self.progress.warn(f"clock of {note.name}: {note.why}")
        asked = {text(file.name) for file in (*found.skipped, *found.good)}
        kept = [file for name, file in self.skipped.items() if name not in asked]
        skipped = [replace(file, name=text(file.name)) for file in found.skipped]
        if {*kept, *skipped} != set(self.skipped.values()):
            rows = records_table(sorted((*kept, *skipped), key=lambda file: file.name))
            self.snapshot = commit(self.snapshot, {SKIPPED: replaced(self.snapshot, SKIPPED, rows)})

    def _summary(self, found: Survey, before: dict[int, Ledger]) -> Compacted:
        earlier = {(hour, file.name) for hour, ledger in before.items() for file in ledger.files if file.late}
        late = {
            file.name
            for hour, ledger in self.made.items()
            for file in ledger.files
            if file.late and (hour, file.name) not in earlier
        }
        return Compacted(
            len(self.made),
            sum(ledger.rows for ledger in self.made.values()),
            found.files,
            len(found.skipped),
            len(late),
            sum(ledger.duplicates for ledger in self.made.values()),
            self.snapshot.slot_us if self.snapshot is not None else 0,
        )


def _hours_of(files: Iterable[FileRecord]) -> set[int]:
    """The hours that files have rows of."""
    return {hour_us for file in files for hour_us in file.hours}


def _as_found(file: FileRecord, brokers: Iterable[str]) -> FileRecord:
    """The record of a file as the survey made it, without the values for one hour."""
    plain = file.status in (READ, NEWER)
    return replace(
        file,
        status=file.status if plain else READ,
        why=file.why if plain else "",
        rows_here=0,
        dropped=0,
        late=False,
        brokers=tuple(sorted(brokers)),
    )


def _require_apart(metrics: Storage, store: Storage) -> None:
    """Raise ReportError for a store inside the metrics folder, where its files would be read as metrics."""
    if not f"{store.uri}/".startswith(f"{metrics.uri}/"):
        return
    below = store.uri.removeprefix(metrics.uri).split("/")
    if not any(is_hidden(name) for name in below):
        raise ReportError(
            f"--store {store.shown}: is inside the metrics folder {metrics.shown}; expected one outside of it"
        )


def _same_slot(options: Options, snapshot: Snapshot | None) -> None:
    if snapshot is None or options.slot_us in (None, snapshot.slot_us):
        return
    raise ReportError(
        f"--slot {format_slot(options.slot_us or 0)}: {options.store} has slots of {format_slot(snapshot.slot_us)}; "
        "leave --slot out, or compact into another folder"
    )


def _require_space(store: Storage, error: Exception) -> None:
    text = str(error)
    if any(message in text for message in FULL):
        raise ReportError(
            f"{store.shown}: no space left, in it or in Spark's scratch folder (TMPDIR); earlier compactions are "
            "complete; free space and run again"
        ) from error
