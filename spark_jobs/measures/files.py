"""Writes the result tables as files: as Parquet, with unchanged texts, and as CSV that is safe to open.

**CSV** is RFC 4180 in UTF-8: a header, CRLF between rows, and fields with commas, quotes or line ends in quotes; null
is an empty field. Spreadsheet programs run a field that begins with =, +, -, @, a tab or a line end as a formula, and
clients choose their ids: such texts, and those that begin with an apostrophe, are prefixed with an apostrophe (OWASP,
"CSV Injection"). Removing one leading apostrophe restores the text; numbers are not changed.
"""

import csv
from collections.abc import Iterator, Mapping, Sequence
from io import BytesIO, StringIO
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from spark_jobs.measures.layout import LAYOUTS
from spark_jobs.measures.result import Result

FOLDER: Final = "tables"
STARVED: Final = "starved_sessions"
"""The one table whose size depends on the number of sessions."""
TABLES: Final = (*LAYOUTS, STARVED, "client")
"""The names of all tables; a report may lack some."""
_FORMULA: Final = (
    "=",
    "+",
    "-",
    "@",
    "\t",
    "\r",
    "\n",
    "'",
    "＝",
    "＋",
    "－",
    "＠",
)  # also in full width


def tables_of(results: Sequence[Result]) -> Mapping[str, pa.Table]:
    """The tables of all runs by name, with the baseline's rows first."""
    found = {}
    for name in TABLES:
        parts = [result.tables[name] for result in results if name in result.tables]
        if parts:
            found[name] = pa.concat_tables(parts)
    return found


def encoded(results: Sequence[Result]) -> Iterator[tuple[str, bytes]]:
    """Name below OUT and content of every table's files: tables/<name>.parquet and tables/<name>.csv."""
    for name, table in tables_of(results).items():
        yield f"{FOLDER}/{name}.parquet", to_parquet(table)
        yield f"{FOLDER}/{name}.csv", to_csv(table)


def to_parquet(table: pa.Table) -> bytes:
    """The table as a Parquet file; the same table gives the same bytes."""
    file = BytesIO()
    pq.write_table(table, file, compression="zstd")
    return file.getvalue()


def to_csv(table: pa.Table) -> bytes:
    """The table as CSV, see the module."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(table.column_names)
    for row in table.to_pylist():
        writer.writerow([_field(value) for value in row.values()])
    return text.getvalue().encode()


def _field(value: object) -> object:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str) and value.startswith(_FORMULA):
        return f"'{value}"
    return value
