"""Packs raw files into tasks: files that may have the same rows share one, and so do small neighbours of one broker."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from spark_jobs.store.taken import FileRecord

TASK_ROWS: Final = 250_000
"""Raw rows of one task, approximately."""

Group = list[str]
"""The names of files that may have rows of the same broker and interval, sorted."""


def packed(files: Iterable[FileRecord], most_rows: int = TASK_ROWS) -> list[list[Group]]:
    """The tasks: each has whole groups, of up to `most_rows` rows unless one group has more."""
    tasks: list[list[Group]] = []
    rows = 0
    for group in _groups(files):
        more = sum(file.rows or 0 for file in group)
        if not tasks or rows + more > most_rows:
            tasks.append([])
            rows = 0
        tasks[-1].append(sorted(file.name for file in group))
        rows += more
    return tasks


def _groups(files: Iterable[FileRecord]) -> list[list[FileRecord]]:
    """Files of the same broker whose times overlap are in one group; groups are in the order of brokers and times."""
    by_broker: dict[str, list[FileRecord]] = defaultdict(list)
    groups = {}
    for file in files:
        groups[file.name] = [file]
        for broker in file.brokers:
            by_broker[broker].append(file)
    for there in by_broker.values():
        there.sort(key=lambda file: _times(file)[0])
        end, last = -1, there[0]
        for file in there:
            start, until = _times(file)
            if start <= end and groups[file.name] is not groups[last.name]:
                groups[last.name] += groups[file.name]
                for other in groups[file.name]:
                    groups[other.name] = groups[last.name]
            if until >= end:
                end, last = until, file
    distinct = {id(group): group for group in groups.values()}
    return sorted(distinct.values(), key=lambda group: min((file.brokers, *_times(file), file.name) for file in group))


def _times(file: FileRecord) -> tuple[int, int]:
    return file.first_us or 0, file.last_us or 0
