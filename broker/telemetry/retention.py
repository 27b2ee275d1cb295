"""Deletes this broker's metrics files that are past `metrics.keep`, by the hours that their folders are named by.

The clock may be wrong: a machine may start years ahead, where every file is past `keep`. So the newest days with files
of this broker stay whatever the clock says, as many as `keep` has. A wrong clock deletes what is older than these, and
one more day for each day on which it is wrong, also over restarts. A broker that was off for some days keeps old files
for as many days longer.
"""

import errno
import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from time import monotonic
from typing import Final

import structlog

from broker.runtime.os_errors import text_of
from broker.telemetry.writer import Writer, partition_of

DAY: Final = 86_400
HOUR_US: Final = 3_600_000_000

LONGEST: Final = 0.25
"""Seconds after which a look ends, because the next export waits for it. The next look goes on."""

_DATE: Final = re.compile(r"date=[0-9]{4}-[0-9]{2}-[0-9]{2}")
_HOUR: Final = re.compile(r"hour=[0-9]{2}")
_FASTER: Final = (errno.ENOENT, errno.ENOTEMPTY)
"""What a call ends with if another broker has removed the same folder, or uses it again."""


@dataclass(slots=True)
class _Deleted:
    """What one look has deleted, and the first error."""

    files: int = 0
    bytes: int = 0
    hours: set[str] = field(default_factory=set)
    error: OSError | None = None

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Keep an error of this step, so that the next steps go on."""
        try:
            yield
        except OSError as error:
            if error.errno not in _FASTER:
                self.error = self.error or error


class Retention:
    """Looks for files to delete once an hour. Of several failures in a row the first is logged; each is counted."""

    def __init__(self, writer: Writer, directory: Path, node: str, keep: float) -> None:
        self.failed = 0
        """Looks in which something could not be deleted."""
        self._writer = writer
        self._directory = directory
        self._own_name = re.compile(re.escape(node) + r"-([0-9]{1,16})-[0-9]+\.parquet")
        self._keep = keep
        self._hour: int | None = None
        self._failing = False
        self._log = structlog.get_logger("sluice")

    async def look(self, now: int) -> None:
        """Delete what is past `keep` at `now`, in microseconds since 1970 UTC. Does not raise OSError."""
        hour = now // HOUR_US
        if math.isinf(self._keep) or hour == self._hour:
            return
        self._hour = hour
        deleted = await self._writer.run(partial(self._delete, now), "to delete old metrics files")
        if deleted.files:
            first, last = min(deleted.hours), max(deleted.hours)
            self._log.info("metrics_deleted", files=deleted.files, bytes=deleted.bytes, first=first, last=last)
        if deleted.error is not None:
            self.failed += 1
            if not self._failing:
                remedy = "let the broker's user write there, or set metrics.keep: infinity"
                self._log.error("metrics_not_deleted", detail=f"{text_of(deleted.error)}; {remedy}")
        self._failing = deleted.error is not None

    def _delete(self, now: int) -> _Deleted:
        """The newest days first: in a shared directory older ones may be full of files that others keep."""
        stays = partition_of(now - round(self._keep * 1_000_000))  # names of folders are in the order of time
        deleted = _Deleted()
        with deleted.errors():
            dates = iter(_folders(self._directory, _DATE))
            for _ in islice(filter(self._has_own, dates), int(self._keep) // DAY):
                pass
            end = monotonic() + LONGEST
            for date in dates:
                if date.name < stays:
                    self._clear_date(date, stays, deleted, end)
                if monotonic() >= end:
                    break
        return deleted

    def _clear_date(self, date: Path, stays: str, deleted: _Deleted, end: float) -> None:
        with deleted.errors():
            for hour in _folders(date, _HOUR):
                if _partition(hour) < stays:
                    with deleted.errors():
                        self._clear(hour, deleted, end)
                    if monotonic() >= end:
                        break
            _remove_if_empty(date)

    def _clear(self, hour: Path, deleted: _Deleted, end: float) -> None:
        for file in self._own(hour):
            size = file.lstat().st_size
            file.unlink()
            deleted.files += 1
            deleted.bytes += size
            deleted.hours.add(_partition(hour))
            if monotonic() >= end:
                break
        _remove_if_empty(hour)

    def _has_own(self, date: Path) -> bool:
        return any(self._own(hour) for hour in _folders(date, _HOUR))

    def _own(self, hour: Path) -> list[Path]:
        """This broker's files in a folder: their names have its name, and a time that belongs there."""
        found = ((path, self._own_name.fullmatch(path.name)) for path in hour.iterdir())
        return [
            path
            for path, name in found
            if name and partition_of(int(name[1])) == _partition(hour) and path.is_file() and not path.is_symlink()
        ]


def _folders(above: Path, name: re.Pattern[str]) -> list[Path]:
    """The folders of such names, the newest first; no links."""
    found = [path for path in above.iterdir() if name.fullmatch(path.name) and path.is_dir() and not path.is_symlink()]
    return sorted(found, reverse=True)


def _partition(hour: Path) -> str:
    return f"{hour.parent.name}/{hour.name}"


def _remove_if_empty(folder: Path) -> None:
    """Another broker that has just made it, for exports as old, makes it and its file again a quarter later."""
    if not any(folder.iterdir()):
        folder.rmdir()
