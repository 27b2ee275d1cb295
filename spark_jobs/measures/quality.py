"""Table `quality`: what was wrong with the input, counted and named; nothing of it stops a report.

From the ledgers: files that were skipped (truncated, empty, foreign, too new ...), duplicate and overlapping rows,
clocks that are off, hours of which the store has lost rows. From the rows: books that do not balance, sessions whose
intervals overlap, sessions that appear once, client ids that a program may stumble over.
"""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812  # its usual name

from spark_jobs.measures.frames import Finding, SourceFile
from spark_jobs.measures.result import Row
from spark_jobs.measures.sums import HourSums

LONGEST_ID: Final = 256  # letters; a client id may have 65,535 bytes
LONGEST_EXAMPLE: Final = 200
# What separates fields, quotes text, begins a tag or a formula, cannot be printed, or turns text around.
_AWKWARD: Final = r"[\p{C}\p{Z}&&[^ ]]|[,;\"'`<>&\\|]|^[=+@-]|^ | $"

_FILES: Final = {
    "duplicate": "Files whose rows are all in other files too; counted once.",
    "overlapping": "Files of which some rows are in other files too; counted once.",
    "older": "Files of an older version of the schema; read, with 0 for what came later.",
    "newer": "Files of a newer version of the schema; read, but for what is new in it.",
    "truncated": "Files that end too soon or are damaged; left out.",
    "empty": "Files of no bytes; left out.",
    "foreign": "Files that are not of this schema; left out.",
    "misplaced": "Files in the wrong folder; left out.",
    "impossible": "Files with values that cannot be: nulls, times of another century, numbers far too large; left out.",
}
_SESSIONS: Final = {
    "overlong": "Sessions whose intervals overlap in some hour: duplicates, or a clock that jumped.",
    "appears_once": "Sessions with a single interval: too little to judge them by.",
    "awkward_id": "Sessions whose client id is very long or holds separators, quotes, markup or unprintable letters.",
}


def _conditions() -> dict[str, Column]:
    long = F.length("client_id") > LONGEST_ID
    return {
        "overlong": F.col("overlong_hours") > 0,
        "appears_once": F.col("rows") == 1,
        "awkward_id": long | F.col("client_id").rlike(_AWKWARD),
        "books": (F.col("books_off_rows") > 0) | (F.col("reasons_off_rows") > 0),
    }


def session_findings() -> list[Column]:
    """Aggregates over sessions: for each kind how many, and as <kind>_example the beginning of the first client id."""
    shown = F.substring("client_id", 1, LONGEST_EXAMPLE)
    found = []
    for name, which in _conditions().items():
        found.append(F.count_if(which).alias(name))
        found.append(F.min(F.when(which, shown)).alias(f"{name}_example"))
    return found


def quality(
    found: Row, sums: HourSums, files: Sequence[SourceFile], findings: Sequence[Finding]
) -> list[Row]:
    """The rows of the table: only what was found.

    Args:
        found: one row with the aggregates of `session_findings`.
        sums: over the whole range.
        files, findings: from the ledgers.
    """
    rows: list[Row] = []
    for status in sorted({file.status for file in files} - {"read"}):
        concerned = [file for file in files if file.status == status]
        words = _FILES.get(status, "Files that were left out.")
        rows.append(_finding(status, len(concerned), min(file.name for file in concerned), words))
    rows += [_finding(f.kind, f.count, f.example, f.words) for f in findings if f.count]
    for name, column, words in (
        ("books_off", "books_off_rows", "Intervals in which offered is not sent + dropped + waiting."),
        ("reasons_off", "reasons_off_rows", "Intervals whose drops by reason are not their drops."),
    ):
        if sums[column]:
            rows.append(_finding(name, sums[column], found["books_example"], words))
    for kind, words in _SESSIONS.items():
        if found[kind]:
            rows.append(_finding(kind, found[kind], found[f"{kind}_example"], words))
    return rows


def _finding(kind: str, count: int, example: str | None, words: str) -> Row:
    return {"kind": kind, "count": count, "example": (example or "")[:LONGEST_EXAMPLE], "words": words}


def files_table(files: Sequence[SourceFile]) -> list[Row]:
    """The rows of table `files`, by name."""
    return [
        {
            "file": file.name.encode(
                errors="backslashreplace"
            ).decode(),  # a name may hold bytes that are no UTF-8
            "status": file.status,
            "why": file.why,
            "rows": file.rows,
            "size": file.size,
        }
        for file in sorted(files, key=lambda file: file.name)
    ]
