"""Removes at once what a store no longer refers to, where Delta's vacuum would wait for a day.

Vacuum with no waiting would also remove what another run has written and not committed yet. Here a file stays if it is
not older than the commit before: whoever wrote an older one began before that commit, so its own commit fails.
"""

import os
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from spark_jobs.storage.local import LocalStorage
from spark_jobs.store.delta import SCHEMAS, Snapshot, stored_file
from spark_jobs.store.erased import Erased
from spark_jobs.store.schema import PARTITIONS, SESSIONS

OF_CLIENTS: Final = tuple(name for name, schema in SCHEMAS.items() if "client_id" in schema.names)
"""The tables with client ids."""
OF_HOURS: Final = tuple(name for name, schema in SCHEMAS.items() if PARTITIONS[0] in schema.names)
_LOG: Final = "_delta_log"


def sweep(snapshot: Snapshot, names: Iterable[str], dropped: Erased | None = None) -> int:
    """Remove the files that tables do not have in a state, after its commit.

    A report that reads an earlier state fails.

    Args:
        snapshot: the state.
        names: the tables.
        dropped: only files of its hours.

    Returns:
        How many bytes they had.
    """
    storage, freed = snapshot.storage, 0
    log = storage.files(f"{SESSIONS}/{_LOG}")
    committed_us = next(entry.modified_us for entry in log if entry.name.endswith(f"/{snapshot.version:020}.json"))
    for name in names:
        kept = {f"{name}/{file.path}" for file in snapshot.files(name)}
        for entry in storage.files(name):
            hour_us = stored_file(f"{entry.folder}/x.parquet").hour_us  # the file may be an unfinished one
            if entry.name in kept or entry.modified_us >= committed_us:
                continue
            if dropped is None or (hour_us is not None and dropped.has(hour_us)):
                storage.remove(entry.name)
                freed += entry.size
                if isinstance(storage, LocalStorage):
                    with suppress(OSError):
                        os.removedirs(storage.path(entry.folder))
    return freed


def shorten(snapshot: Snapshot, names: Iterable[str]) -> None:
    """Remove the logs of tables up to a state: its statistics have texts of removed rows. Earlier states go too."""
    for name in names:
        table = snapshot.tables[name]
        table.create_checkpoint()
        for entry in snapshot.storage.files(f"{name}/{_LOG}"):
            version = entry.name.rpartition("/")[2].partition(".")[0]
            if version.isdigit() and int(version) < table.version():
                snapshot.storage.remove(entry.name)
