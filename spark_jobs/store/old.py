"""Converts a store of the earlier format: folders of hours, each with a ledger, that a manifest lists.

The hours are read once, written to the tables, and committed; then the earlier files are removed, the manifest last. A
run that is ended before that is done again; hours that the tables have are kept as they are.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from spark_jobs.errors import ReportError
from spark_jobs.histograms import modern
from spark_jobs.progress import Progress
from spark_jobs.storage import Storage
from spark_jobs.store.delta import BROKERS, FILES, SKIPPED, Change, add_rows, commit, create
from spark_jobs.store.schema import DATASETS, arrow_types, earlier_name
from spark_jobs.store.store import MANIFEST, stored
from spark_jobs.store.taken import FileRecord, hour_start, records_table, text, watermarks_of, watermarks_table

FORMAT: Final = 1
_LEDGER: Final = "ledger.json"
_BATCH_HOURS: Final = 48


def convert(storage: Storage, progress: Progress) -> None:
    """Convert the store in this folder.

    Raises:
        ReportError: it is damaged, or of an unknown format.
    """
    manifest = _manifest(storage)
    snapshot = create(storage, int(manifest["slot_us"]))
    there = {file.hour_us for file in snapshot.files(FILES)}
    hours = {hour_start(name): folder for name, folder in manifest["hours"].items()}
    todo = sorted(hours.keys() - there)
    with progress.stage(f"converting {len(todo):,} hours of an earlier version"):
        for first in range(0, len(todo), _BATCH_HOURS):
            changes = {name: Change() for name in (*DATASETS, FILES)}
            for hour_us in todo[first : first + _BATCH_HOURS]:
                folder = hours[hour_us]
                for dataset in DATASETS:
                    rows = _rows(storage, dataset, folder)
                    changes[dataset].added += [add_rows(storage, dataset, part, hour_us) for part in rows]
                files = records_table(_records(storage, f"{folder}/{_LEDGER}"))
                changes[FILES].added.append(add_rows(storage, FILES, files, hour_us))
            snapshot = commit(snapshot, changes)
        known = watermarks_of(snapshot.arrow(BROKERS))
        marks = {**manifest["watermarks"], **known}
        ledger = manifest["ledger"]
        skipped = _records(storage, ledger) if ledger and storage.exists(ledger) else []
        changes = {
            BROKERS: Change([add_rows(storage, BROKERS, watermarks_table(marks))], snapshot.files(BROKERS)),
            SKIPPED: Change([add_rows(storage, SKIPPED, records_table(skipped))], snapshot.files(SKIPPED)),
        }
        commit(snapshot, changes)
        for name in (*[name for name in storage.folders() if name.startswith("date=")], "ledgers", MANIFEST):
            storage.remove(name)


def _rows(storage: Storage, dataset: str, folder: str) -> Iterator[pa.Table]:
    """The rows of one hour as they are stored now; counters that are newer than the hour are 0."""
    types = arrow_types(dataset)
    schema = pa.schema(list(types.items()))
    for entry in storage.files(f"{folder}/{dataset}"):
        with storage.open(entry.name) as source, pq.ParquetFile(source) as file:
            rows = file.read()
        if rows.num_rows:
            arrays = [_column(rows, name, kind) for name, kind in types.items()]
            yield stored(dataset, pa.Table.from_arrays(arrays, schema=schema))


def _column(rows: pa.Table, name: str, kind: pa.DataType) -> pa.Array | pa.ChunkedArray:
    earlier = earlier_name(name)
    if earlier is not None:
        rows = modern(rows, {name: earlier})
    if name in rows.column_names:
        return rows[name].cast(kind)
    return pa.nulls(rows.num_rows, kind) if earlier is not None else pa.array(np.zeros(rows.num_rows, np.int64))


def _manifest(storage: Storage) -> dict[str, Any]:
    try:
        manifest = json.loads(storage.read(MANIFEST))
        if manifest["format"] != FORMAT:
            raise ReportError(
                f"{storage.shown}: is a store of format {manifest['format']}, this program converts format {FORMAT}; "
                "compact into a new folder"
            )
        return {name: manifest[name] for name in ("slot_us", "watermarks", "hours", "ledger")}
    except (ValueError, KeyError, TypeError) as error:
        raise ReportError(
            f"{storage.shown}/{MANIFEST}: is damaged ({error!r}); restore it, or compact into a new folder"
        ) from None


def _records(storage: Storage, name: str) -> list[FileRecord]:
    try:
        files = json.loads(storage.read(name))["files"]
        records = [FileRecord(**{**file, "brokers": tuple(file["brokers"])}) for file in files]
        return [replace(record, name=text(record.name)) for record in records]
    except (ValueError, KeyError, TypeError) as error:
        raise ReportError(f"{storage.uri_of(name)}: is damaged ({error!r}); compact into a new folder") from None
