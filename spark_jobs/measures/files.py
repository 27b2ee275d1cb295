"""The result tables as files: each as Parquet, with every text as it is, and as CSV that is safe to open.

**CSV** is RFC 4180 in UTF-8: a header, CRLF between rows, and fields with commas, quotes or line ends in quotes; null
is an empty field. Programs for spreadsheets take a field that begins with =, +, -, @, a tab or a line end for a formula
and run it, and client ids are anybody's choice: such texts, and those that begin with an apostrophe, get one apostrophe
before them (OWASP, "CSV Injection"). Taking one leading apostrophe off gives the exact text back; numbers
are left alone. Parquet needs none of that.
"""

import csv
from collections.abc import Iterator, Mapping, Sequence
from io import BytesIO, StringIO
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq

from spark_jobs.measures.layout import LAYOUTS
from spark_jobs.measures.result import Result

if TYPE_CHECKING:
    from pyspark.sql import Column

FOLDER: Final = "tables"
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
)  # spreadsheets read wide ones too


def tables_of(results: Sequence[Result]) -> Mapping[str, pa.Table]:
    """The tables of all runs by name, the baseline's rows first."""
    found = {}
    for name in LAYOUTS:
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


def safe_text(text: "Column") -> "Column":
    """The same in Spark, for tables that only Spark can write."""
    from pyspark.sql import functions as F  # noqa: N812  # its usual name

    begins = F.substring(text, 1, 1).isin(list(_FORMULA))
    return F.when(begins, F.concat(F.lit("'"), text)).otherwise(text)


# For DataFrameWriter.csv: RFC 4180 but for the line ends, which Spark writes as \n; null is an empty field, an empty
# text two quotes.
CSV_OPTIONS: Final = {
    "header": "true",
    "escape": '"',
    "quote": '"',
    "emptyValue": '""',
    "nullValue": "",
    "ignoreLeadingWhiteSpace": "false",
    "ignoreTrailingWhiteSpace": "false",
    "compression": "none",
}
