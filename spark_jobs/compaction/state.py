"""What a store says about itself: its manifest, and of each hour a ledger of the raw files that it was made from."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final

from spark_jobs.compaction.schema import FORMAT, HOUR_US
from spark_jobs.errors import ReportError
from spark_jobs.metrics import SCHEMA

MANIFEST: Final = "manifest.json"
NEXT_MANIFEST: Final = "manifest.next.json"  # the same, there while the manifest is being replaced
LEDGER: Final = "ledger.json"
LEDGERS: Final = "ledgers"  # folder of what concerns no hour alone

READ: Final = "read"
DUPLICATE: Final = "duplicate"
OVERLAPPING: Final = "overlapping"
OLDER: Final = "older"
NEWER: Final = "newer"
USED: Final = frozenset({READ, DUPLICATE, OVERLAPPING, OLDER, NEWER})
"""What a file's status may be if its rows are in the store, or are there by another file."""


@dataclass(frozen=True)
class FileRecord:
    """One raw file.

    Attributes:
        name: relative to the metrics folder.
        size, modified_us: by the file system, when it was looked at.
        status: read, or what else there is to say: older or newer (schema), duplicate (all of its rows are in other
            files too), overlapping (some are); or why it was skipped: truncated, empty, foreign, unreadable, misplaced,
            impossible (its values).
        why: in words; empty for a file that was simply read.
        rows: by its footer; None if that cannot be read.
        rows_here: those of the hour whose ledger this is.
        dropped: of those, rows that another file has too and that were taken from there.
        first_us, last_us: first and last interval_end; None if unknown.
        late: it brought rows of a time up to which its broker had been compacted already.
        brokers: whose rows it holds, as far as known.
    """

    name: str
    size: int
    modified_us: int
    status: str
    why: str = ""
    rows: int | None = None
    rows_here: int = 0
    dropped: int = 0
    first_us: int | None = None
    last_us: int | None = None
    late: bool = False
    brokers: tuple[str, ...] = ()

    @property
    def identity(self) -> tuple[str, int, int | None]:
        """What makes it the same file when it is seen again."""
        return (self.name, self.size, self.rows)

    @property
    def hours(self) -> tuple[int, ...]:
        """The starts of the hours that it may have rows of, in microseconds; none if its bounds are unknown."""
        if self.first_us is None or self.last_us is None:
            return ()
        return tuple(range(self.first_us - self.first_us % HOUR_US, self.last_us + 1, HOUR_US))


@dataclass(frozen=True)
class Note:
    """Something odd about the input that concerns no file alone: which kind, of whom, and what in words."""

    kind: str
    name: str
    why: str


@dataclass(frozen=True)
class Ledger:
    """What one compacted hour was made from; or, with no hour, what concerns the store as a whole.

    Attributes:
        hour_us: start of the hour; None for the store's own.
        rows: raw rows that are in the compacted ones.
        duplicates: rows left out because others with the same key are in.
        files: those that fed the hour; of the store's own ledger those that were skipped.
        kept: how often rows were added to compacted ones because raw files had been deleted.
        notes: kind `clock` for brokers whose clock is off.
    """

    hour_us: int | None
    rows: int = 0
    duplicates: int = 0
    files: tuple[FileRecord, ...] = ()
    kept: int = 0
    notes: tuple[Note, ...] = ()

    def to_json(self) -> bytes:
        """As it is stored."""
        return _json({**asdict(self), "files": [asdict(file) for file in self.files]})


@dataclass(frozen=True)
class Manifest:
    """What of the store is valid. Readers look at nothing that it does not name.

    Attributes:
        slot_us: length of a slot of the timeline.
        watermarks: broker -> up to when its rows have been compacted, in microseconds.
        hours: start of the hour, as 2026-11-21T13 -> its folder.
        ledger: name of the store's own ledger.
    """

    slot_us: int
    watermarks: Mapping[str, int] = field(default_factory=dict)
    hours: Mapping[str, str] = field(default_factory=dict)
    ledger: str | None = None

    def to_json(self) -> bytes:
        """As it is stored."""
        return _json(
            {
                "format": FORMAT,
                "schema": {"name": SCHEMA.name, "version": SCHEMA.version},
                "slot_us": self.slot_us,
                "watermarks": dict(sorted(self.watermarks.items())),
                "hours": dict(sorted(self.hours.items())),
                "ledger": self.ledger,
            }
        )

    def with_hours(self, hours: Mapping[str, str], watermarks: Mapping[str, int]) -> "Manifest":
        """The same with some hours made anew; watermarks only ever rise."""
        raised = {
            broker: max(self.watermarks.get(broker, 0), watermarks.get(broker, 0))
            for broker in {*self.watermarks, *watermarks}
        }
        return replace(self, hours={**self.hours, **hours}, watermarks=raised)


def hour_name(hour_us: int) -> str:
    """2026-11-21T13 for the hour that starts then."""
    return datetime.fromtimestamp(hour_us // 1_000_000, UTC).strftime("%Y-%m-%dT%H")


def hour_start(name: str) -> int:
    """The start, in microseconds, of the hour that `hour_name` calls so."""
    return int(datetime.fromisoformat(f"{name}:00:00+00:00").timestamp()) * 1_000_000


def hour_folder(hour_us: int) -> str:
    """Where the versions of an hour lie: date=2026-11-21/hour=13."""
    date, _, hour = hour_name(hour_us).partition("T")
    return f"date={date}/hour={hour}"


def parse_manifest(data: bytes, shown: str) -> Manifest:
    """A manifest as it was stored.

    Raises:
        ReportError: it is none, or of another format.
    """
    try:
        raw = json.loads(data)
        if raw["format"] != FORMAT:
            raise ReportError(
                f"{shown}: is a store of format {raw['format']}, this program reads format {FORMAT}; "
                "compact into a new folder, or take the version of Sluice that made it"
            )
        return Manifest(int(raw["slot_us"]), dict(raw["watermarks"]), dict(raw["hours"]), raw.get("ledger"))
    except (ValueError, KeyError, TypeError) as error:
        raise ReportError(
            f"{shown}/{MANIFEST}: is damaged ({error!r}); restore it, or compact into a new folder"
        ) from None


def parse_ledger(data: bytes, shown: str) -> Ledger:
    """A ledger as it was stored.

    Raises:
        ReportError: it is none.
    """
    try:
        raw = json.loads(data)
        files = tuple(FileRecord(**{**file, "brokers": tuple(file["brokers"])}) for file in raw["files"])
        notes = tuple(Note(**note) for note in raw["notes"])
        return Ledger(raw["hour_us"], raw["rows"], raw["duplicates"], files, raw["kept"], notes)
    except (ValueError, KeyError, TypeError) as error:
        raise ReportError(f"{shown}: is damaged ({error!r}); remove the store and compact anew") from None


def by_name(files: Iterable[FileRecord]) -> dict[str, FileRecord]:
    """Files by their names."""
    return {file.name: file for file in files}


def _json(value: Mapping[str, Any]) -> bytes:
    # A file name may hold bytes that are no UTF-8; Python has them as lone surrogates, which ASCII can carry.
    return (json.dumps(value, indent=1, ensure_ascii=True) + "\n").encode("ascii")
