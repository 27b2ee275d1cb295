"""What a store knows of raw files, read hour by hour: memory does not grow with the number of files."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Final

from spark_jobs.compaction.footers import DAMAGED, IMPOSSIBLE
from spark_jobs.storage import Entry
from spark_jobs.store.delta import FILES, Snapshot, StoredFile
from spark_jobs.store.erased import NOTHING, Erased
from spark_jobs.store.schema import HOUR_US
from spark_jobs.store.taken import FileRecord, by_name, records_of, text

_NEAR: Final = (0, HOUR_US, -HOUR_US)
"""From the hour of a file's folder to the hours of its rows. Files that have none of these are inspected each time."""


class Known:
    """The files that a store has, and those that it has skipped.

    Args:
        snapshot: the store; None: it knows no files.
        erased: its dropped hours.
        skipped: name -> skipped file.
    """

    def __init__(self, snapshot: Snapshot | None, skipped: Mapping[str, FileRecord], erased: Erased = NOTHING) -> None:
        self._snapshot = snapshot
        self._erased = erased
        self._skipped = skipped
        self._tables: dict[int, list[StoredFile]] = defaultdict(list)
        for table in snapshot.files(FILES) if snapshot is not None else ():
            self._tables[table.hour_us or 0].append(table)
        self._read: dict[int, Mapping[str, FileRecord]] = {}

    def damaged(self, entry: Entry) -> FileRecord | None:
        """The record of a file that is damaged or impossible, for which all of it was read; None if it is not known."""
        file = self._skipped.get(text(entry.name))
        if file is None or not (file.why.startswith(DAMAGED) or file.status == IMPOSSIBLE):
            return None
        return file if (file.size, file.modified_us) == (entry.size, entry.modified_us) else None

    def has(self, entry: Entry, hour_us: int) -> bool:
        """Whether the store has, or has dropped, all rows of this file, which is in the folder of this hour."""
        if self._erased.has_all([hour_us + near for near in _NEAR]):
            return True
        if text(entry.name) in self._skipped:  # it may be valid by now
            return False
        for near in _NEAR:
            if (file := self._hour(hour_us + near).get(entry.name)) is not None:
                same = (file.size, file.modified_us) == (entry.size, entry.modified_us)
                return same and all(self._erased.has(hour) or entry.name in self._hour(hour) for hour in file.hours)
        return False

    def _hour(self, hour_us: int) -> Mapping[str, FileRecord]:
        """The files with rows of an hour by their names; other hours are forgotten soon."""
        if hour_us not in self._read:
            self._read = {hour: files for hour, files in self._read.items() if abs(hour - hour_us) <= 2 * HOUR_US}
            self._read[hour_us] = by_name(self._files(hour_us))
        return self._read[hour_us]

    def _files(self, hour_us: int) -> Iterator[FileRecord]:
        for table in self._tables.get(hour_us, ()):
            assert self._snapshot is not None
            yield from records_of(self._snapshot.read(FILES, table))


NOTHING_KNOWN: Final = Known(None, {})
