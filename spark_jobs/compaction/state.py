"""The metadata of a store: its manifest, and for each hour a ledger of its raw files."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final

from spark_jobs.compaction.schema import FORMAT, HOUR_US
from spark_jobs.errors import ReportError
from spark_jobs.metrics import SCHEMA

MANIFEST: Final = "manifest.json"
NEXT_MANIFEST: Final = "manifest.next.json"  # the new manifest while it replaces the old one
LEDGER: Final = "ledger.json"
LEDGERS: Final = "ledgers"  # folder of the store's own ledger

READ: Final = "read"
DUPLICATE: Final = "duplicate"
OVERLAPPING: Final = "overlapping"
OLDER: Final = "older"
NEWER: Final = "newer"
USED: Final = frozenset({READ, DUPLICATE, OVERLAPPING, OLDER, NEWER})
"""The status of files whose rows are in the store."""


@dataclass(frozen=True)
class FileRecord:
    """One raw file.

    Attributes:
        name: relative to the metrics folder.
        size, modified_us: from the file system.
        status: read, older or newer (schema), duplicate (all its rows are also in other files), overlapping (some are);
            or if it was skipped: truncated, empty, foreign, unreadable, misplaced, impossible (its values).
        why: explanation of the status; empty for `read`.
        rows: from its footer; None if that cannot be read.
        rows_here: rows of the ledger's hour.
        dropped: of those, duplicates of rows in other files.
        first_us, last_us: first and last interval_end; None if unknown.
        late: it has rows older than its broker's watermark when it was compacted.
        brokers: brokers of its rows, if known.
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
        """The values that identify an unchanged file."""
        return (self.name, self.size, self.rows)

    @property
    def hours(self) -> tuple[int, ...]:
        """The starts of the hours of its rows, in microseconds; empty if its bounds are unknown."""
        if self.first_us is None or self.last_us is None:
            return ()
        return tuple(range(self.first_us - self.first_us % HOUR_US, self.last_us + 1, HOUR_US))


@dataclass(frozen=True)
class Note:
    """A finding about the input that is not about one file: its kind, the name of its subject, an explanation."""

    kind: str
    name: str
    why: str


@dataclass(frozen=True)
class Ledger:
    """The input of one compacted hour; without an hour, findings about the whole store.

    Attributes:
        hour_us: start of the hour; None for the store's ledger.
        rows: compacted raw rows.
        duplicates: rows left out because their key occurs in another file.
        files: the input files; in the store's ledger the skipped files.
        kept: number of times that rows were added to compacted ones because raw files had been deleted.
        notes: kind `clock` for brokers with a wrong clock.
    """

    hour_us: int | None
    rows: int = 0
    duplicates: int = 0
    files: tuple[FileRecord, ...] = ()
    kept: int = 0
    notes: tuple[Note, ...] = ()

    def to_json(self) -> bytes:
        """The stored form."""
        return _json({**asdict(self), "files": [asdict(file) for file in self.files]})


@dataclass(frozen=True)
class Manifest:
    """The valid content of the store. Readers ignore everything else.

    Attributes:
        slot_us: length of a slot of the timeline.
        watermarks: broker -> last compacted interval_end, in microseconds.
        hours: start of the hour, such as 2026-11-21T13 -> its folder.
        ledger: name of the store's ledger.
    """

    slot_us: int
    watermarks: Mapping[str, int] = field(default_factory=dict)
    hours: Mapping[str, str] = field(default_factory=dict)
    ledger: str | None = None

    def to_json(self) -> bytes:
        """The stored form."""
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
        """A copy with some hours added or replaced; watermarks only rise."""
        raised = {
            broker: max(self.watermarks.get(broker, 0), watermarks.get(broker, 0))
            for broker in {*self.watermarks, *watermarks}
        }
        return replace(self, hours={**self.hours, **hours}, watermarks=raised)


def hour_name(hour_us: int) -> str:
    """2026-11-21T13 for the hour that starts then."""
    return datetime.fromtimestamp(hour_us // 1_000_000, UTC).strftime("%Y-%m-%dT%H")


def hour_start(name: str) -> int:
    """The start, in microseconds, of the hour with this name."""
    return int(datetime.fromisoformat(f"{name}:00:00+00:00").timestamp()) * 1_000_000


def hour_folder(hour_us: int) -> str:
    """The folder of an hour's versions: date=2026-11-21/hour=13."""
    date, _, hour = hour_name(hour_us).partition("T")
    return f"date={date}/hour={hour}"


def parse_manifest(data: bytes, shown: str) -> Manifest:
    """Parse a stored manifest.

    Raises:
        ReportError: it is damaged, or has another format.
    """
    try:
        raw = json.loads(data)
        if raw["format"] != FORMAT:
            raise ReportError(
                f"{shown}: is a store of format {raw['format']}, this program reads format {FORMAT}; "
                "compact into a new folder, or use the version of Sluice that created it"
            )
        return Manifest(int(raw["slot_us"]), dict(raw["watermarks"]), dict(raw["hours"]), raw.get("ledger"))
    except (ValueError, KeyError, TypeError) as error:
        raise ReportError(
            f"{shown}/{MANIFEST}: is damaged ({error!r}); restore it, or compact into a new folder"
        ) from None


def parse_ledger(data: bytes, shown: str) -> Ledger:
    """Parse a stored ledger.

    Raises:
        ReportError: it is damaged.
    """
    try:
        raw = json.loads(data)
        files = tuple(FileRecord(**{**file, "brokers": tuple(file["brokers"])}) for file in raw["files"])
        notes = tuple(Note(**note) for note in raw["notes"])
        return Ledger(raw["hour_us"], raw["rows"], raw["duplicates"], files, raw["kept"], notes)
    except (ValueError, KeyError, TypeError) as error:
        raise ReportError(f"{shown}: is damaged ({error!r}); remove the store and compact again") from None


def by_name(files: Iterable[FileRecord]) -> dict[str, FileRecord]:
    """Files by their names."""
    return {file.name: file for file in files}


def _json(value: Mapping[str, Any]) -> bytes:
    # A file name may contain bytes that are not UTF-8; Python represents them as lone surrogates, escaped here.
    return (json.dumps(value, indent=1, ensure_ascii=True) + "\n").encode("ascii")
