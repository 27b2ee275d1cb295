"""Table `quality`: faults of the input, counted, with an example. They do not stop a report.

From the store: skipped files (truncated, empty, foreign, too new ...), duplicate and overlapping rows, wrong clocks,
hours with missing rows, dropped hours. From the rows: counters that do not reconcile, sessions whose intervals overlap,
sessions that appear once, client ids with unusual characters.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from spark_jobs.measures.frames import Finding, SourceFile
from spark_jobs.measures.result import Row
from spark_jobs.measures.sums import HourSums

LONGEST_ID: Final = 256  # letters; a client id may have 65,535 bytes
LONGEST_EXAMPLE: Final = 200
_AWKWARD: Final = r"[,;\"'`<>&\\|]|^[=+@-]|^ | $|[\p{C}\p{Z}&&[^ ]]"
"""Separators, quotes, starts of tags and formulas, and what cannot be printed."""

_FILES: Final = {
    "duplicate": "Files that have all their rows in common with other files; counted once.",
    "overlapping": "Files that have some rows in common with other files; counted once.",
    "newer": "Files of a newer version of the schema; read without its new columns.",
    "truncated": "Files that are truncated or damaged; skipped.",
    "empty": "Files of 0 bytes; skipped.",
    "foreign": "Files with another schema; skipped.",
    "misplaced": "Files in the wrong folder; skipped.",
    "impossible": "Files with impossible values (nulls, times later than the file or long ago, huge numbers); skipped.",
}
_SESSIONS: Final = {
    "overlong": "Sessions whose intervals overlap in some hour: duplicates, or a clock that jumped.",
    "appears_once": "Sessions with a single interval, too few for a judgement.",
    "awkward_id": "Sessions with a very long client id, or one with separators, quotes, markup or unprintable letters.",
}
NAME_CLIENTS: Final = frozenset({*_SESSIONS, "books_off", "reasons_off"})
"""Kinds whose example is a client id."""


def _conditions() -> dict[str, Column]:
    """Kind -> whether it is true of a row of `sessions.per_client`."""
    client_id = F.col("client_id")
    return {
        "overlong": F.col("overlong_hours") > 0,
        "appears_once": F.col("rows") == 1,
        "awkward_id": (F.length(client_id) > LONGEST_ID) | client_id.rlike(_AWKWARD),
        "books": (F.col("books_off_rows") > 0) | (F.col("reasons_off_rows") > 0),
    }


def session_findings() -> dict[str, Column]:
    """For each kind the number of sessions, and as <kind>_example the start of the first client id, or null."""
    example = F.substring("client_id", 1, LONGEST_EXAMPLE)
    found: dict[str, Column] = {}
    for name, which in _conditions().items():
        found |= {name: F.count_if(which), f"{name}_example": F.min(F.when(which, example))}
    return found


def quality(
    found: Mapping[str, Any], sums: HourSums, files: Sequence[SourceFile], findings: Sequence[Finding]
) -> list[Row]:
    """The rows of the table: the faults that were found.

    Args:
        found: see `session_findings`, over all sessions.
        sums: over the whole range.
        files, findings: from the store.
    """
    rows: list[Row] = []
    for status in sorted({file.status for file in files} - {"read"}):
        concerned = [file for file in files if file.status == status]
        text = _FILES.get(status, "Files that were skipped.")
        rows.append(_finding(status, len(concerned), min(file.name for file in concerned), text))
    rows += [_finding(f.kind, f.count, f.example, f.explanation) for f in findings if f.count]
    for name, column, text in (
        ("books_off", "books_off_rows", "Intervals: offered differs from sent + dropped + superseded + waiting."),
        ("reasons_off", "reasons_off_rows", "Intervals in which the sum of drops by reason differs from drops."),
    ):
        if sums[column]:
            rows.append(_finding(name, sums[column], found["books_example"], text))
    for kind, text in _SESSIONS.items():
        if found[kind]:
            rows.append(_finding(kind, found[kind], found[f"{kind}_example"], text))
    return rows


def _finding(kind: str, count: int, example: str | None, text: str) -> Row:
    return {"kind": kind, "count": count, "example": (example or "")[:LONGEST_EXAMPLE], "words": text}


def files_table(files: Sequence[SourceFile]) -> list[Row]:
    """The rows of table `files`, by name."""
    return [
        {
            "file": file.name.encode(
                errors="backslashreplace"
            ).decode(),  # a name may contain bytes that are not UTF-8
            "status": file.status,
            "why": file.why,
            "rows": file.rows,
            "size": file.size,
        }
        for file in sorted(files, key=lambda file: file.name)
    ]
