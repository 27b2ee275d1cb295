"""Finding what of a store cannot be read: looked for once a report has failed on it."""

import pyarrow as pa
import pyarrow.parquet as pq

from spark_jobs.compaction.schema import DATASETS
from spark_jobs.compaction.store import ALL, Selection, Store
from spark_jobs.errors import ReportError
from spark_jobs.storage import StorageError


def require_sound(store: Store, selection: Selection = ALL) -> None:
    """Read all files of the selected hours to their ends.

    Raises:
        ReportError: one cannot be read, or an hour is not there; says which, and how to have it made anew.
    """
    for folder in store.folders(selection):
        for dataset in DATASETS:
            name = f"{folder}/{dataset}"
            try:
                _read(store, name)
            except (OSError, pa.ArrowException, StorageError) as error:
                why = str(error).partition("\n")[0]
                raise ReportError(
                    f"{store.storage.address(name)}: {why}; remove the folder {store.storage.address(folder)} and run "
                    "`sluice compact` again, which makes the hour anew of its raw files"
                ) from error


def _read(store: Store, name: str) -> None:
    files = list(store.storage.files(name)) if store.storage.is_folder(name) else []
    if not files:
        raise StorageError("is gone from the store")
    for entry in files:
        with store.storage.open(entry.name) as source, pq.ParquetFile(source) as file:
            for _ in file.iter_batches():
                pass
