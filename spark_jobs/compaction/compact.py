"""Compaction from end to end: find what is new, make the hours it touches, and name them in the manifest.

Nothing is changed in place. Each hour is written into a folder named by a digest of what it is made from; the
manifest, written last and by one rename, says which folders are valid. A run that is ended at any moment leaves the
old state whole, or the new one; the next run removes what is left over.

A store has a manifest before it has anything else: a folder without one may be somebody's; nothing is removed there.
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
from spark_jobs.compaction.slots import words
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

WORK: Final = "_work"  # folder of what is being written
FULL: Final = ("No space left on device", "Disk quota exceeded", "QuotaExceeded")


@dataclass(frozen=True)
class Options:
    """What is asked for.

    Attributes:
        metrics, store: addresses.
        slot_us: length of the timeline's slots; None: as the store has it, and for a new store default_slot_us.
        start_us, end_us: only hours that have a part in this range; None leaves a side open.
        default_slot_us: None: by the usual interval of the rows.
    """

    metrics: str
    store: str
    slot_us: int | None = None
    start_us: int | None = None
    end_us: int | None = None
    default_slot_us: int | None = None


@dataclass(frozen=True)
class Compacted:
    """What a compaction has done.

    Attributes:
        hours: how many were made.
        rows: raw rows in them.
        files: good raw files that were found.
        skipped: files that cannot be used.
        late: files with rows of a time that had been compacted before.
        duplicates: rows left out because others with the same key are in.
        slot_us: length of the timeline's slots.
    """

    hours: int
    rows: int
    files: int
    skipped: int
    late: int
    duplicates: int
    slot_us: int

    def words(self, store: str) -> str:
        """One line that says it."""
        if not self.hours:
            return f"{store} is up to date with {self.files:,} files; {self.skipped:,} skipped"
        return (
            f"{store}: {self.hours:,} hours made of {self.rows:,} rows, {self.files:,} files seen, "
            f"{self.skipped:,} skipped, {self.late:,} late, {self.duplicates:,} duplicate rows left out"
        )


def compact(options: Options, spark_of: "Callable[[int | None], SparkSession]", progress: Progress) -> Compacted:
    """Bring a store up to date with a metrics folder.

    Args:
        options: what to do.
        spark_of: gives the session to work with, started at the latest then; called with the number of raw rows if that
            is known. Without remote addresses and anything to do it is not called.
        progress: told of each stage.

    Raises:
        ReportError: something about the input, the store or the machine will not do.
    """
    spark = None if is_local(options.metrics) and is_local(options.store) else spark_of(None)
    metrics, store = open_storage(options.metrics, spark), open_storage(options.store, spark)
    _require_apart(metrics, store)
    store.make_folder()
    with locked(store):
        return _Run(options, metrics, store, spark_of, progress).run()


@dataclass
class _Run:
    """One compaction, with the store's lock held."""

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
        self._tidy(manifest)
        manifest = self._load(manifest)
        found = self._survey()
        damaged: dict[str, FileRecord] = {}
        before = dict(self.ledgers)
        while True:
            try:
                manifest = self._make(manifest, found, before)
                break
            except spark_errors() as error:
                self.store.remove(WORK)  # what has filled a disk does not keep it full
                _require_space(self.store, error)
                bad = self._damaged(found, str(error))
                if not bad:
                    raise
                for file in bad:
                    self.progress.warn(f"skipped {file.name}: {file.why}; starting again without it")
                damaged |= by_name(bad)
                good = tuple(file for file in found.good if file.name not in damaged)
                found = replace(found, good=good, skipped=(*found.skipped, *bad))
                if not good:
                    require_good(self.metrics, found.skipped)
                manifest = read_manifest(self.store)  # it names the hours that were made until then
                self._tidy(manifest)
        manifest = self._note(manifest, found)
        self._tidy(manifest)
        return self._summary(manifest, found, before)

    def _load(self, manifest: Manifest | None) -> Manifest | None:
        """Read what the store knows already; hours that have been removed from it are forgotten, and made anew."""
        if manifest is None:
            return None
        there = {hour: folder for hour, folder in manifest.hours.items() if self.store.exists(f"{folder}/{LEDGER}")}
        for hour in sorted(manifest.hours.keys() - there.keys()):
            self.progress.warn(f"{hour} is gone from the store: it is made anew of the raw files that there are")
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
            # Only a look at all of a file tells these. Others may be there or allowed by now: they are looked at again.
            **{name: file for name, file in self.skipped.items() if file.why.startswith(DAMAGED)},
            **{file.name: _as_found(file) for ledger in self.ledgers.values() for file in ledger.files},
        }
        with self.progress.stage(f"looking for files in {self.metrics.shown}") as stage:
            found = survey(self.metrics, known, self.options.start_us, self.options.end_us)
            stage.note = (
                f"{len(found.good):,} files with {found.rows:,} rows, {found.inspected:,} of them not known yet, "
                f"{len(found.skipped):,} skipped"
            )
        for skipped in found.skipped:
            if self.skipped.get(skipped.name) != skipped:
                self.progress.warn(f"skipped {skipped.name}: {skipped.why}")
        if not found.good and not self.ledgers:
            require_good(self.metrics, found.skipped)
        return found

    def _make(self, manifest: Manifest | None, found: Survey, before: Mapping[int, Ledger]) -> Manifest:
        """Make all hours that differ, some at a time, and name them in the manifest after each time."""
        hours = self._plan(found, manifest)
        if not hours:
            return manifest or Manifest(self.options.slot_us or self.options.default_slot_us or 60_000_000)
        from spark_jobs.compaction.making import Maker

        spark = self.spark_of(sum(int(hour.rows) for hour in hours))
        if manifest is None or not manifest.hours:
            manifest = self._begin(spark, manifest, hours)
            hours = self._plan(found, manifest)
        watermarks = manifest.watermarks
        for batch in batches(hours):
            maker = Maker(
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
            made = maker.make(batch)
            manifest = manifest.with_hours(made.folders, made.watermarks)
            write_manifest(self.store, manifest)
            self.ledgers |= made.ledgers
        return manifest

    def _begin(self, spark: "SparkSession", manifest: Manifest | None, hours: Iterable[Hour]) -> Manifest:
        """Write the manifest of a store that has no hours yet."""
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
        with self.progress.stage("looking at the usual interval") as stage:
            slot_us = choose_slot(raw.usual_interval(raw.read(spark, self.metrics, names)))
            stage.note = f"slots of {words(slot_us)}"
        return slot_us

    def _damaged(self, found: Survey, error: str) -> list[FileRecord]:
        """Files that have a sound footer, and cannot be read all the same: looked for once a job has failed.

        No checksum covers a page's header: what pyarrow reads as sound, Spark may refuse. Then it names the file.
        """
        from spark_jobs.compaction.raw import refused

        with ThreadPoolExecutor(4) as pool:
            bad = [bad for bad in pool.map(lambda file: damage_of(self.metrics, file), found.good) if bad is not None]
        name, why = refused(error) or ("", "")
        return bad or [damaged(file, why) for file in found.good if file.name == name]

    def _note(self, manifest: Manifest, found: Survey) -> Manifest:
        """Write the store's own ledger: what was skipped, and clocks that are off; and have the manifest name it."""
        asked = {file.name for file in found.skipped} | {file.name for file in found.good}
        before = [file for name, file in self.skipped.items() if name not in asked]  # also those that are gone since
        files = tuple(sorted((*found.skipped, *before), key=lambda file: file.name))
        # A file of several hours is in several ledgers.
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

    def _tidy(self, manifest: Manifest | None) -> None:
        """Remove what the manifest does not name: left by a run that was ended, or replaced by this one."""
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
    """A file as the survey knew it: without what holds in one hour alone."""
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
    """Raise ReportError for a store whose files would be taken for metrics."""
    if not f"{store.uri}/".startswith(f"{metrics.uri}/"):
        return
    below = store.uri.removeprefix(metrics.uri).split("/")
    if not any(is_hidden(name) for name in below):
        raise ReportError(
            f"--store {store.shown}: lies in the metrics folder {metrics.shown}; a folder beside it would be right"
        )


def _require_unused(store: Storage) -> None:
    """Raise ReportError for a folder that is no store, and has folders that one would have: they are somebody's."""
    there = [name for name in store.folders() if name in (WORK, LEDGERS) or name.startswith("date=")]
    if there:
        raise ReportError(
            f"{store.shown}: has no {MANIFEST}, so it is no store, but {there[0]} is in it; nothing was touched. Give "
            f"a new folder; or if this is a store that has lost its {MANIFEST}, restore that, or remove date=*, "
            f"{LEDGERS} and {WORK} to compact anew what there still is of the raw files"
        )


def _same_slot(options: Options, manifest: Manifest | None) -> None:
    if manifest is None or not manifest.hours or options.slot_us in (None, manifest.slot_us):
        return
    raise ReportError(
        f"--slot {words(options.slot_us or 0)}: {options.store} has slots of {words(manifest.slot_us)}; "
        "leave --slot out, or compact into another folder"
    )


def _require_space(store: Storage, error: Exception) -> None:
    text = str(error)
    if any(words in text for words in FULL):
        raise ReportError(
            f"{store.shown}: no space left, on it or in Spark's scratch folder (TMPDIR); what was compacted before is "
            "whole; make room and run again"
        ) from error
