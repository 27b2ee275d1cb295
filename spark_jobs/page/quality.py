"""The last section: data quality."""

from collections.abc import Sequence
from typing import Final

from spark_jobs import formats
from spark_jobs.measures.result import Result, Row
from spark_jobs.page.grids import Column, of_run, of_runs, words
from spark_jobs.page.markup import Section, name_of

READ: Final = "read"
_FAULTS: Final = (
    words("what", "kind", formats.kind),
    Column("count"),
    words("for example", "example", lambda value: name_of(value, 60) if value else formats.DASH),
    words("", "words", lambda value: formats.name(value or "", 300), wrap=True),
)
_FILES: Final = (
    words("file", "file", lambda value: name_of(value, 120), wrap=True),
    words("status", "status", formats.kind),
    words("why", "why", lambda value: formats.name(value or "", 300), wrap=True),
)
_BOOKS: Final = (
    words("", "qos", lambda qos: "all" if qos == "all" else f"QoS {qos}"), Column("offered"), Column("sent"),
    Column("dropped"), Column("superseded"), Column("more waiting", "waiting_growth"), Column("difference"),
    Column("rows that do not reconcile", "rows_off"),
)  # fmt: skip


def quality_section(results: Sequence[Result]) -> Section:
    """What was read, its faults, and whether the counters reconcile."""
    told = " ".join(f"{of_run(result, results)}{_told(result)}" for result in results)
    title = "Reconciliation: offered = sent + dropped + superseded + more waiting"
    parts = (
        of_runs(results, "quality", "Faults of the input", _FAULTS, _faults),
        of_runs(results, "files", "Files with a remark", _FILES, _remarked),
        of_runs(results, "books", title, _BOOKS),
    )
    return Section("quality", "Data quality", told, parts)


def _faults(result: Result) -> list[Row]:
    return [row for row in result.rows_of("quality") if row["count"]]


def _remarked(result: Result) -> list[Row]:
    return [row for row in result.rows_of("files") if row["status"] != READ]


def _told(result: Result) -> str:
    facts, books = result.facts, result.maybe("books", qos="all")
    files = result.rows_of("files")
    told = f"Made from {formats.counted(facts.rows, 'row')} of {formats.counted(facts.clients, 'client')}"
    told += f" in {formats.counted(sum(row['status'] == READ for row in files), 'file')}." if files else "."
    if books is not None:
        off = books["rows_off"]
        told += f" The counters do not reconcile in {off:,} of them." if off else " The counters reconcile in all."
    return told if _faults(result) else f"{told} The input had no faults."
