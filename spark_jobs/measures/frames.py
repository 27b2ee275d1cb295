"""The input of the measures: the compacted rows of a selection, and facts about their files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class SourceFile:
    """One raw file, from the table of files.

    Attributes:
        name: relative to the metrics folder.
        status: read, newer, duplicate, overlapping; or if it was skipped: truncated, empty, foreign ...
        why: explanation of the status; empty for `read`.
        rows, size: of the file; None if unknown.
    """

    name: str
    status: str
    why: str = ""
    rows: int | None = None
    size: int | None = None


@dataclass(frozen=True)
class Finding:
    """One kind of fault of the input: its number, an example, and an explanation."""

    kind: str
    count: int
    example: str
    explanation: str


@dataclass(frozen=True)
class StoreFrames:
    """The compacted rows of one selection.

    Attributes:
        sessions, timeline, starvation: rows of these datasets by `store.schema`, with times in microseconds.
        groups: the same; None if there are none.
        slot_us: length of a slot of the timeline.
        files: the raw files of the rows, and skipped ones.
        findings: findings of the compaction: duplicate and overlapping rows, wrong clocks ...
        watermarks: broker -> last compacted interval_end.
        version: of the store.
        asked_from_us, asked_to_us, broker: the selection; None: not restricted.
        there: the content of the store as text, for the message about an empty range.
        hour_rows: hour -> compacted raw rows of all brokers.
    """

    sessions: "DataFrame"
    timeline: "DataFrame"
    starvation: "DataFrame"
    slot_us: int
    files: Sequence[SourceFile] = ()
    findings: Sequence[Finding] = ()
    watermarks: Mapping[str, int] = field(default_factory=dict)
    version: int = 0
    asked_from_us: int | None = None
    asked_to_us: int | None = None
    broker: str | None = None
    there: str = ""
    hour_rows: Mapping[int, int] = field(default_factory=dict)
    groups: "DataFrame | None" = None
