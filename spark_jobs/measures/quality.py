"""Table `quality`: faults of the input, counted, with an example. They do not stop a report.

From the store: skipped files (truncated, empty, foreign, too new ...), duplicate and overlapping rows, wrong clocks,
hours with missing rows, dropped hours. From the rows: counters that do not reconcile, sessions whose intervals overlap,
sessions that appear once, client ids with unusual characters.
"""

import re
from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from spark_jobs.arrays import Mask, ints
from spark_jobs.measures.frames import Finding, SourceFile
from spark_jobs.measures.result import Row
from spark_jobs.measures.sums import HourSums

LONGEST_ID: Final = 256  # letters; a client id may have 65,535 bytes
LONGEST_EXAMPLE: Final = 200
_AWKWARD: Final = re.compile(r"[,;\"'`<>&\\|]|^[=+@-]|^ | $")  # separators, quotes, starts of tags and formulas

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


def _conditions(sessions: pa.Table) -> dict[str, Mask]:
    awkward = [_is_awkward(name) for name in sessions["client_id"].to_pylist()]
    return {
        "overlong": ints(sessions, "overlong_hours") > 0,
        "appears_once": ints(sessions, "rows") == 1,
        "awkward_id": np.array(awkward, np.bool_),
        "books": (ints(sessions, "books_off_rows") > 0) | (ints(sessions, "reasons_off_rows") > 0),
    }


def _is_awkward(client_id: str) -> bool:
    """Whether it is very long, or has letters that programs stumble over, also unprintable and bidirectional ones."""
    return len(client_id) > LONGEST_ID or not client_id.isprintable() or _AWKWARD.search(client_id) is not None


def session_findings(sessions: pa.Table) -> Row:
    """For each kind the number of sessions, and as <kind>_example the start of the first client id, or None."""
    found: Row = {}
    for name, which in _conditions(sessions).items():
        found[name] = int(which.sum())
        ids = sessions["client_id"].filter(pa.array(which)).to_pylist()
        found[f"{name}_example"] = min((client_id[:LONGEST_EXAMPLE] for client_id in ids), default=None)
    return found


def quality(
    found: Row, sums: HourSums, files: Sequence[SourceFile], findings: Sequence[Finding]
) -> list[Row]:
    """The rows of the table: the faults that were found.

    Args:
        found: see `session_findings`.
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
