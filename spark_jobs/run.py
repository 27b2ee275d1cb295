"""What the job knows of one metrics folder once it is through: small enough for the driver in any case."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from spark_jobs.files import Survey

Row = dict[str, Any]  # column name -> value of a result table


@dataclass(frozen=True)
class Run:
    """One analysed folder.

    Attributes:
        label: its name in the report.
        survey: the files it was read from.
        rows, sessions: how many there were in the range.
        first_us, last_us: first and last interval_end, microseconds since 1970.
        window_us, slot_us: how the time is cut.
        tables: the result tables by name, see `spark_jobs.job.TABLES`.
    """

    label: str
    survey: Survey
    rows: int
    sessions: int
    first_us: int
    last_us: int
    window_us: int
    slot_us: int
    tables: Mapping[str, pa.Table]

    @property
    def first(self) -> datetime:
        """First interval_end."""
        return datetime.fromtimestamp(self.first_us / 1e6, UTC)

    @property
    def last(self) -> datetime:
        """Last interval_end."""
        return datetime.fromtimestamp(self.last_us / 1e6, UTC)

    @property
    def seconds(self) -> float:
        """The time that the rows stand for: windows without a row are not in it."""
        return float(self.one("totals", qos="all")["seconds"])

    def rows_of(self, table: str) -> list[Row]:
        """The rows of a result table."""
        return list(self.tables[table].to_pylist())

    def one(self, table: str, **values: object) -> Row:
        """The first row of a result table that has these values."""
        return next(
            row for row in self.rows_of(table) if all(row[name] == value for name, value in values.items())
        )
