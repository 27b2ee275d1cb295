"""Compaction from end to end: find new files, build the hours that they affect, and add these to the manifest.

Files are never changed in place. Each hour is written to a folder named by a digest of its input; the manifest, written
last and by one rename, lists the valid folders. A run that is killed leaves the old or the new state; the next run
removes the rest.

A new store gets its manifest first. In a folder without one nothing is removed, because it may not be a store.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from spark_jobs.compaction.clocks import off_clocks
from spark_jobs.compaction.footers import DAMAGED, damage_of, damaged
from spark_jobs.compaction.lock import locked
from spark_jobs.compaction.plan import Hour, batches, plan
from spark_jobs.compaction.slots import format_slot
from spark_jobs.compaction.state import (
    LEDGER,
    LEDGERS,
    MANIFEST,
    NEWER,
    OLDER,
    READ,
    FileRecord,
    Ledger,
    Manifest,
    by_name,
    hour_start,
)
from spark_jobs.compaction.store import read_ledgers, read_manifest, settle_manifest, write_manifest
from spark_jobs.compaction.survey import Survey, require_good, survey
from spark_jobs.errors import ReportError, spark_errors
from spark_jobs.progress import Progress
from spark_jobs.storage import Storage, is_hidden, is_local, open_storage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WORK: Final = "_work"  # folder of unfinished files
FULL: Final = ("No space left on device", "Disk quota exceeded", "QuotaExceeded")


@dataclass(frozen=True)
class Options:
    """The options of a compaction.

    Attributes:
        metrics, store: URIs.
        slot_us: length of the timeline's slots; None: the store's, or default_slot_us for a new store.
        start_us, end_us: only hours that overlap this range; None: open.
        default_slot_us: None: chosen by the usual interval of the rows.
    """

    metrics: str
    store: str
    slot_us: int | None = None
    start_us: int | None = None
    end_us: int | None = None
    default_slot_us: int | None = None


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
    """

    hours: int
    rows: int
    files: int
    skipped: int
    late: int
    duplicates: int
    slot_us: int

    def summary(self, store: str) -> str:
        """The result in one line."""
        if not self.hours:
            return f"{store} is up to date with {self.files:,} files; {self.skipped:,} skipped"
        return (
            f"{store}: {self.hours:,} hours built from {self.rows:,} rows, {self.files:,} files seen, "
            f"{self.skipped:,} skipped, {self.late:,} late, {self.duplicates:,} duplicate rows left out"
        )


def compact(options: Options, spark_of: "Callable[[int | None], SparkSession]", progress: Progress) -> Compacted:
    """Update a store from a metrics folder.

    Args:
        options: the options.
        spark_of: returns the Spark session, started when needed; its argument is the number of raw rows, if known. It
            is not called if all folders are local and nothing is new.
        progress: prints each stage.

    Raises:
        ReportError: the input, the store or the machine cannot be used.
    """
    spark = None if is_local(options.metrics) and is_local(options.store) else spark_of(None)
    metrics, store = open_storage(options.metrics, spark), open_storage(options.store, spark)
    _require_apart(metrics, store)
    store.make_folder()
    with locked(store):
        return _Compaction(options, metrics, store, spark_of, progress).run()


@dataclass
class _Compaction:
    """One compaction; the store's lock is held."""

    options: Options
    metrics: Storage
    store: Storage
    spark_of: "Callable[[int | None], SparkSession]"
    progress: Progress
    ledgers: dict[int, Ledger] = field(default_factory=dict)
    skipped: dict[str, FileRecord] = field(default_factory=dict)

    def run(self) -> Compacted:
        settle_manifest(self.store)
        manifest = read_manifest(self.store)
        if manifest is None:
            _require_unused(self.store)
        _same_slot(self.options, manifest)
        self._remove_unnamed(manifest)
        manifest = self._load(manifest)
        found = self._survey()
        damaged: dict[str, FileRecord] = {}
        before = dict(self.ledgers)
        while True:
            try:
                manifest = self._make(manifest, found, before)
                break
            except spark_errors() as error:
                self.store.remove(WORK)  # free the space if the disk is full
                _require_space(self.store, error)
                bad = self._damaged(found, str(error))
                if not bad:
                    raise
                for file in bad:
                    self.progress.warn(f"skipped {file.name}: {file.why}; restarting without it")
                damaged |= by_name(bad)
                good = tuple(file for file in found.good if file.name not in damaged)
                found = replace(found, good=good, skipped=(*found.skipped, *bad))
                if not good:
                    require_good(self.metrics, found.skipped)
                manifest = read_manifest(self.store)  # with the hours built so far
                self._remove_unnamed(manifest)
        manifest = self._note(manifest, found)
        self._remove_unnamed(manifest)
        return self._summary(manifest, found, before)

    def _load(self, manifest: Manifest | None) -> Manifest | None:
        """Read the store's ledgers. Hours whose folders have been removed are dropped, so that they are rebuilt."""
        if manifest is None:
            return None
        there = {hour: folder for hour, folder in manifest.hours.items() if self.store.exists(f"{folder}/{LEDGER}")}
        for hour in sorted(manifest.hours.keys() - there.keys()):
            self.progress.warn(f"{hour} is missing from the store: it is rebuilt from the existing raw files")
        read = read_ledgers(self.store, [f"{folder}/{LEDGER}" for folder in there.values()])
        self.ledgers = {hour_start(hour): ledger for hour, ledger in zip(there, read, strict=True)}
        if manifest.ledger and self.store.exists(manifest.ledger):
            self.skipped = by_name(read_ledgers(self.store, [manifest.ledger])[0].files)
        if len(there) < len(manifest.hours):
            manifest = replace(manifest, hours=there)
            write_manifest(self.store, manifest)
        return manifest

    def _survey(self) -> Survey:
        known = {
            # Damage is found by reading the whole file. Other skipped files may be valid by now: inspect them again.
            **{name: file for name, file in self.skipped.items() if file.why.startswith(DAMAGED)},
            **{file.name: _as_found(file) for ledger in self.ledgers.values() for file in ledger.files},
        }
        with self.progress.stage(f"searching files in {self.metrics.shown}") as stage:
            found = survey(self.metrics, known, self.options.start_us, self.options.end_us)
            stage.note = (
                f"{len(found.good):,} files with {found.rows:,} rows, {found.inspected:,} of them new, "
                f"{len(found.skipped):,} skipped"
            )
        for skipped in found.skipped:
            if self.skipped.get(skipped.name) != skipped:
                self.progress.warn(f"skipped {skipped.name}: {skipped.why}")
        if not found.good and not self.ledgers:
            require_good(self.metrics, found.skipped)
        return found

    def _make(self, manifest: Manifest | None, found: Survey, before: Mapping[int, Ledger]) -> Manifest:
        """Build all changed hours in batches; the manifest is written after each batch."""
        hours = self._plan(found, manifest)
        if not hours:
            return manifest or Manifest(self.options.slot_us or self.options.default_slot_us or 60_000_000)
        from spark_jobs.compaction.hour_builder import HourBuilder

        spark = self.spark_of(sum(int(hour.rows) for hour in hours))
        if manifest is None or not manifest.hours:
            manifest = self._begin(spark, manifest, hours)
            hours = self._plan(found, manifest)
        watermarks = manifest.watermarks
        for batch in batches(hours):
            builder = HourBuilder(
                spark,
                self.metrics,
                self.store,
                WORK,
                manifest.slot_us,
                watermarks,
                before,
                manifest.hours,
                self.progress,
            )
            made = builder.build(batch)
            manifest = manifest.with_hours(made.folders, made.watermarks)
            write_manifest(self.store, manifest)
            self.ledgers |= made.ledgers
        return manifest

    def _begin(self, spark: "SparkSession", manifest: Manifest | None, hours: Iterable[Hour]) -> Manifest:
        """Write the manifest of a store without hours."""
        kept = manifest.slot_us if manifest is not None else None
        slot_us = self.options.slot_us or kept or self.options.default_slot_us or self._usual_slot(spark, hours)
        manifest = replace(manifest or Manifest(slot_us), slot_us=slot_us)
        write_manifest(self.store, manifest)
        return manifest

    def _plan(self, found: Survey, manifest: Manifest | None) -> list[Hour]:
        slot_us = manifest.slot_us if manifest is not None else 0
        versions = manifest.hours if manifest is not None else {}
        return plan(found.good, self.ledgers, slot_us, self.options.start_us, self.options.end_us, versions)

    def _usual_slot(self, spark: "SparkSession", hours: Iterable[Hour]) -> int:
        from spark_jobs.compaction import raw
        from spark_jobs.compaction.slots import choose_slot

        names = sorted({file.name for hour in hours for file in hour.files})
        with self.progress.stage("measuring the usual interval") as stage:
            slot_us = choose_slot(raw.usual_interval(raw.read(spark, self.metrics, names)))
            stage.note = f"slots of {format_slot(slot_us)}"
        return slot_us

    def _damaged(self, found: Survey, error: str) -> list[FileRecord]:
        """Files with a valid footer that cannot be read; searched after a job has failed.

        No checksum covers a page's header: Spark may reject a file that pyarrow can read. Its error names the file.
        """
        from spark_jobs.compaction.raw import refused

        with ThreadPoolExecutor(4) as pool:
            bad = [bad for bad in pool.map(lambda file: damage_of(self.metrics, file), found.good) if bad is not None]
        name, why = refused(error) or ("", "")
        return bad or [damaged(file, why) for file in found.good if file.name == name]

    def _note(self, manifest: Manifest, found: Survey) -> Manifest:
        """Write the store's own ledger (skipped files, wrong clocks) and put it into the manifest."""
        asked = {file.name for file in found.skipped} | {file.name for file in found.good}
        before = [file for name, file in self.skipped.items() if name not in asked]  # also those that are missing now
        files = tuple(sorted((*found.skipped, *before), key=lambda file: file.name))
        # A file with rows of several hours is in several ledgers.
        every = by_name(file for _, ledger in sorted(self.ledgers.items()) for file in ledger.files)
        ledger = Ledger(None, files=files, notes=off_clocks(every[name] for name in sorted(every)))
        data = ledger.to_json()
        name = f"{LEDGERS}/{hashlib.sha256(data).hexdigest()[:16]}.json"
        if manifest.ledger == name:
            return manifest
        for note in ledger.notes:
            self.progress.warn(f"clock of {note.name}: {note.why}")
        self.store.write(name, data)
        manifest = replace(manifest, ledger=name)
        write_manifest(self.store, manifest)
        return manifest

    def _remove_unnamed(self, manifest: Manifest | None) -> None:
        """Remove files that the manifest does not name: left by a killed run, or replaced by this one."""
        if manifest is None:
            return
        self.store.remove(WORK)
        named = set(manifest.hours.values())
        for date in self.store.folders():
            if not date.startswith("date="):
                continue
            for hour in self.store.folders(date):
                for version in self.store.folders(f"{date}/{hour}"):
                    if f"{date}/{hour}/{version}" not in named:
                        self.store.remove(f"{date}/{hour}/{version}")
        if self.store.is_folder(LEDGERS):
            for entry in list(self.store.files(LEDGERS)):
                if entry.name != manifest.ledger:
                    self.store.remove(entry.name)

    def _summary(self, manifest: Manifest, found: Survey, before: Mapping[int, Ledger]) -> Compacted:
        made = [ledger for hour, ledger in self.ledgers.items() if before.get(hour) is not ledger]
        earlier = {(hour, file.name) for hour, ledger in before.items() for file in ledger.files if file.late}
        late = {
            file.name
            for ledger in made
            for file in ledger.files
            if file.late and (ledger.hour_us, file.name) not in earlier
        }
        return Compacted(
            len(made),
            sum(ledger.rows for ledger in made),
            len(found.good),
            len(found.skipped),
            len(late),
            sum(ledger.duplicates for ledger in made),
            manifest.slot_us,
        )


def _as_found(file: FileRecord) -> FileRecord:
    """The record of a file as the survey made it, without the values for one hour."""
    plain = file.status in (READ, OLDER, NEWER)
    return replace(
        file,
        status=file.status if plain else READ,
        why=file.why if plain else "",
        rows_here=0,
        dropped=0,
        late=False,
        brokers=(),
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


def _require_unused(store: Storage) -> None:
    """Raise ReportError for a folder that is not a store but contains folders with the names of one."""
    there = [name for name in store.folders() if name in (WORK, LEDGERS) or name.startswith("date=")]
    if there:
        raise ReportError(
            f"{store.shown}: is not a store (it has no {MANIFEST}), but contains {there[0]}; nothing was changed. "
            f"Use a new folder, or if this is a store without its {MANIFEST}, restore that, or remove date=*, "
            f"{LEDGERS} and {WORK} to rebuild it from the existing raw files"
        )


def _same_slot(options: Options, manifest: Manifest | None) -> None:
    if manifest is None or not manifest.hours or options.slot_us in (None, manifest.slot_us):
        return
    raise ReportError(
        f"--slot {format_slot(options.slot_us or 0)}: {options.store} has slots of {format_slot(manifest.slot_us)}; "
        "leave --slot out, or compact into another folder"
    )


def _require_space(store: Storage, error: Exception) -> None:
    text = str(error)
    if any(message in text for message in FULL):
        raise ReportError(
            f"{store.shown}: no space left, in it or in Spark's scratch folder (TMPDIR); earlier compactions are "
            "complete; free space and run again"
        ) from error
