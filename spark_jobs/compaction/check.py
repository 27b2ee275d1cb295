"""Finds damaged files of a store, after a report has failed."""

import pyarrow as pa
import pyarrow.parquet as pq

from spark_jobs.errors import ReportError
from spark_jobs.storage import StorageError
from spark_jobs.store.schema import DATASETS, HOUR_US
from spark_jobs.store.store import ALL, Selection, Store, open_store
from spark_jobs.store.taken import hour_name


def require_sound(store: Store, selection: Selection = ALL) -> None:
    """Read all files of the selected hours completely.

    Raises:
        ReportError: a file cannot be read or is missing; the message says which, and how to rebuild the hour. Or it was
            removed because a later version does not need it.
    """
    newest = open_store(store.storage.shown).snapshot
    for dataset in DATASETS:
        for file in store.snapshot.files(dataset, selection.start_us, selection.end_us):
            name = f"{dataset}/{file.path}"
            try:
                with store.storage.open(name) as source, pq.ParquetFile(source) as parquet:
                    for _ in parquet.iter_batches():
                        pass
            except (OSError, pa.ArrowException, StorageError) as error:
                if not store.storage.exists(name) and newest.version != store.snapshot.version:
                    raise ReportError(
                        f"{store.storage.shown}: files of version {store.snapshot.version} were removed, by --keep, "
                        "--drop or --forget, or because a day has passed; make the report again, of version "
                        f"{newest.version}"
                    ) from error
                why = str(error).partition("\n")[0]
                hour = file.hour_us or 0
                raise ReportError(
                    f"{store.storage.uri_of(name)}: {why}; build its hour again from the raw files: sluice compact "
                    f"--rebuild --from {hour_name(hour)}:00 --to {hour_name(hour + HOUR_US)}:00"
                ) from error
