"""Finds damaged files of a store, after a report has failed."""

import pyarrow as pa
import pyarrow.parquet as pq

from spark_jobs.compaction.schema import DATASETS
from spark_jobs.compaction.store import ALL, Selection, Store
from spark_jobs.errors import ReportError
from spark_jobs.storage import StorageError


def require_sound(store: Store, selection: Selection = ALL) -> None:
    """Read all files of the selected hours completely.

    Raises:
        ReportError: a file cannot be read or is missing; the message says which, and how to rebuild the hour.
    """
    for folder in store.folders(selection):
        for dataset in DATASETS:
            name = f"{folder}/{dataset}"
            try:
                _read(store, name)
            except (OSError, pa.ArrowException, StorageError) as error:
                why = str(error).partition("\n")[0]
                raise ReportError(
                    f"{store.storage.uri_of(name)}: {why}; remove the folder {store.storage.uri_of(folder)} and run "
                    "`sluice compact` again to rebuild the hour from its raw files"
                ) from error


def _read(store: Store, name: str) -> None:
    files = list(store.storage.files(name)) if store.storage.is_folder(name) else []
    if not files:
        raise StorageError("is missing from the store")
    for entry in files:
        with store.storage.open(entry.name) as source, pq.ParquetFile(source) as file:
            for _ in file.iter_batches():
                pass
