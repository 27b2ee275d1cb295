"""What the measures work from: the compacted rows of a selection, as frames, and what is known of their files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class SourceFile:
    """One raw file by the ledgers.

    Attributes:
        name: relative to the metrics folder.
        status: read, or what else there is to say of it: older, newer, duplicate, overlapping; or why it was skipped
            (truncated, empty, foreign ...).
        why: in words; empty for a file that was simply read.
        rows, size: of the file; None if unknown.
    """

    name: str
    status: str
    why: str = ""
    rows: int | None = None
    size: int | None = None


@dataclass(frozen=True)
class Finding:
    """One kind of trouble with the input: how often, an example, and what it means in words."""

    kind: str
    count: int
    example: str
    words: str


@dataclass(frozen=True)
class StoreFrames:
    """The compacted rows of one selection.

    Attributes:
        sessions, timeline, starvation: frames by `spark_jobs.compaction.schema`.
        slot_us: length of a slot of the timeline.
        files: the raw files behind the rows, and those that were left out.
        findings: what compaction has noted: duplicate and overlapping rows, clocks that are off ...
        watermarks: broker -> up to when its rows have been compacted.
        asked_from_us, asked_to_us, broker: the selection; None: not restricted.
        there: what the store holds, in words, for the message that nothing was found.
        hour_rows: hour -> raw rows that were compacted into it, of all brokers.
    """

    sessions: "DataFrame"
    timeline: "DataFrame"
    starvation: "DataFrame"
    slot_us: int
    files: Sequence[SourceFile] = ()
    findings: Sequence[Finding] = ()
    watermarks: Mapping[str, int] = field(default_factory=dict)
    asked_from_us: int | None = None
    asked_to_us: int | None = None
    broker: str | None = None
    there: str = ""
    hour_rows: Mapping[int, int] = field(default_factory=dict)
